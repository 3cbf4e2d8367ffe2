"""Finds the extensions of RFC 5280 that a private authority's certificates lack for strict TLS libraries.

Python does from 3.13 on (VERIFY_X509_STRICT); older ones and librdkafka accept such certificates.
"""

NEW_SERVER = "sign the server's certificate again with authorityKeyIdentifier=keyid"
NEW_AUTHORITY = "make the authority's certificate again, from its key, with "

# how OpenSSL names what it misses -> which certificate lacks what, and what to do
LACKING = {
    "Missing Authority Key Identifier": (
        "the server's certificate lacks the Authority Key Identifier",
        NEW_SERVER,
    ),
    "Missing Subject Key Identifier": (
        "its authority's certificate lacks the Subject Key Identifier",
        f"{NEW_AUTHORITY}subjectKeyIdentifier=hash",
    ),
    "Basic Constraints of CA cert not marked critical": (
        "the Basic Constraints of its authority's certificate are not critical",
        f"{NEW_AUTHORITY}basicConstraints=critical,CA:TRUE",
    ),
    "CA cert does not include key usage extension": (
        "its authority's certificate lacks the Key Usage",
        f"{NEW_AUTHORITY}keyUsage=critical,keyCertSign,cRLSign",
    ),
}


def lacking(why: str) -> str:
    """Return which certificate lacks what, and what to do; "" where `why`, of OpenSSL, has another reason."""
    for named, (what, do) in LACKING.items():
        if named in why:
            return f"{what}, which Python 3.13 and newer require: {do} (streams/security/README.md has the commands)"
    return ""

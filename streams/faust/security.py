"""Faust's settings for a cluster that wants TLS or a password."""

from typing import Any

import faust
from faust.auth import OAuthCredentials

from streams.security.security import OAUTHBEARER, Security
from streams.security.tls import context_of


def faust_options(security: Security) -> dict[str, Any]:
    """Return the options of `faust.App` with which its consumer and the producer that it starts connect.

    Raises:
        PochadeError: a certificate, key or authority that cannot be used.
    """
    options: dict[str, Any] = {
        "broker_client_id": security.client_id,
        "broker_check_crcs": security.checks_crcs,
        "consumer_max_fetch_size": security.most_fetched_bytes,
        "consumer_connections_max_idle_ms": security.idle_ms,
        "producer_connections_max_idle_ms": security.idle_ms,
    }
    credentials = _credentials(security)
    return options if credentials is None else {**options, "broker_credentials": credentials}


def _credentials(security: Security) -> Any:
    context = context_of(security.tls) if security.tls is not None else None
    if security.mechanism == OAUTHBEARER and security.oidc is not None:
        from streams.security.oidc import TokenProvider

        return OAuthCredentials(oauth_cb=TokenProvider(security.oidc), ssl_context=context)
    if security.mechanism:
        return faust.SASLCredentials(
            username=security.username,
            password=security.password,
            mechanism=security.mechanism,
            ssl_context=context,
        )
    return faust.SSLCredentials(context=context) if context is not None else None

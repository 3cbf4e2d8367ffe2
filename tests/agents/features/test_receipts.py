"""Images that a worker signs, decisions that a deployment signs, and what is refused of both."""

import asyncio
import base64
import dataclasses
import hashlib
import io
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from PIL import Image

pytest.importorskip("c2pa", reason="needs the extra `receipts`")

from click.testing import CliRunner, Result
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from agents.features.receipts import ReceiptStage
from agents.gateway.formats import Format
from schemas.avro import to_wire
from schemas.messages import GenerateOptions, ImageGenerated, Made, Stage
from streams import metrics
from streams.cli import main
from streams.commands import opening
from streams.operator.receipts import decision_of, disagreement, sha256_of, states_of
from streams.security import receipts
from streams.security.receipts import Forged, KeyFiles, Signer, demo_pair, read_image, read_record
from streams.settings import Gateway, InvalidSettings, Receipts, load
from tests.agents.features.test_features import two_images
from tests.agents.gateway.deployment import Deployment, ended
from tests.agents.gateway.test_app import HEART, got, png, posted, spoken
from tests.agents.worker.test_generate import Studio, answers, read, taken
from tests.builders import a_classified, a_job, a_request
from tests.memory_store import MemoryImageStore
from tests.paths import ROOT
from tests.replay.runs import a_step

PEM = serialization.Encoding.PEM
MADE = Made(
    variant="light", seed=2**63 - 1, steps=3, guidance=1.5, width=16, height=8, negative_prompt="drizzle",
    weights={"model": "ab" * 32}, engine="diffusers 0.36.0", device="cpu",
)  # fmt: skip
DEMO_NAME = "Pochade demo, whose key is public"


class Authority:
    """A certificate authority, which issues certificates of P-256 for signers."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._issued(name, self._key, is_authority=True)

    def _issued(self, name: str, key: ec.EllipticCurvePrivateKey, is_authority: bool = False, days: int = 30) -> bytes:
        named = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Tests"), x509.NameAttribute(NameOID.COMMON_NAME, name)]
        subject = self._name if is_authority else x509.Name(named)
        now, public = datetime.now(UTC), key.public_key()
        usage = x509.KeyUsage(not is_authority, False, False, False, False, is_authority, False, False, False)
        made = (
            x509.CertificateBuilder(self._name, subject, public, x509.random_serial_number())
            .not_valid_before(now - timedelta(days=60)).not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), True).add_extension(usage, True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False)
        )  # fmt: skip
        if not is_authority:
            made = made.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.EMAIL_PROTECTION]), False)
        return made.sign(self._key, hashes.SHA256()).public_bytes(PEM)

    def pair(self, name: str = "worker", days: int = 30) -> tuple[bytes, bytes]:
        """A signer's certificates and key."""
        key = ec.generate_private_key(ec.SECP256R1())
        form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        return self._issued(name, key, days=days) + self.certificate, key.private_bytes(PEM, *form)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("Tests' authority")


def a_signer() -> Signer:
    return Signer(*demo_pair())


def states(prompt: str = "a red heart", **job: Any) -> dict[str, Any]:
    request = a_request(request_id="r-1", prompt=prompt)
    return states_of(a_job(a_classified(request), **job), MADE, number=0)


def a_decision(data: bytes, **fields: Any) -> dict[str, Any]:
    """The decision about a signed file, of a result whose path the fields may change."""
    sha256 = hashlib.sha256(data).hexdigest()
    step = a_step(plan_version=a_job().plan_version)
    image = dataclasses.replace(step.image, sha256=sha256)
    kept = dataclasses.replace(step, image=image, confidence=0.8, threshold=0.7, level=a_job().level)
    path = [dataclasses.replace(kept, **fields)]
    result = ended(image_sha256=sha256, prompt="a red heart", wrong_at_most=0.05)
    return decision_of(dataclasses.replace(result, level=path[0].level, path=json.dumps([to_wire(Stage)(path[0])])))


def test_a_worker_signs_the_bytes_that_it_stores_and_says_what_made_them() -> None:
    studio = Studio(stage=ReceiptStage(KeyFiles(Receipts(certificate="demo"))))
    plain = Studio()
    asked = taken("r-1", prompt="a red heart", seed=7, options=GenerateOptions(n=2, negative_prompt="drizzle"))
    said = read(answers(studio.driver, [asked])[0], ImageGenerated)
    bare = read(answers(plain.driver, [asked])[0], ImageGenerated)
    for number, (ref, without) in enumerate(zip((said.image, *said.more), (bare.image, *bare.more), strict=True)):
        data, unsigned = studio.store.get(ref.uri), plain.store.get(without.uri)
        assert hashlib.sha256(data).hexdigest() == ref.sha256
        found = read_image(data)
        assert (found.states["request_id"], found.states["number"]) == ("r-1", number)
        assert found.states["plan_version"] == said.job.plan_version
        assert found.states["made"]["seed"] == 7 + number
        assert "price_per_hour" not in found.states["made"], "images go to anybody"
        assert (found.is_trusted, found.ingredients) == (False, ())
        with Image.open(io.BytesIO(data)) as one, Image.open(io.BytesIO(unsigned)) as other:
            assert one.tobytes() == other.tobytes()
            assert one.info == other.info, "text chunks stay as they were"
        assert len(data) - len(unsigned) < 6000
        assert b"thumbnail" not in data


def test_images_that_are_served_join_the_decisions_about_them(in_process: Callable[..., Any]) -> None:
    store = MemoryImageStore()
    results = in_process(two_images, settings=load({"receipts": {"certificate": "demo"}}), store=store)
    for result, kept in zip(results, ([True], [False, True]), strict=True):
        data, decision = store.get(result.image_uri), decision_of(result)
        assert disagreement(data, read_image(data).states, decision) == ""
        assert [each["kept"] for each in decision["stages"]] == kept


def test_a_receipt_says_that_a_machine_made_the_image_and_no_prompt() -> None:
    data = a_signer().image(png(), states())
    assert b"trainedAlgorithmicMedia" in data
    assert not any(word in data for word in (b"red heart", b"drizzle"))
    found = read_image(data).states
    assert found["prompt_sha256"] == sha256_of("a red heart")
    assert found["made"]["negative_prompt_sha256"] == sha256_of("drizzle")
    assert found["made"]["seed"] == 2**63 - 1


def test_an_image_over_a_draft_or_an_input_names_it() -> None:
    begun = [{"title": "image", "instance_id": "sha256:0123"}, {"title": "latent"}]
    data = a_signer().image(png(), states(), begun)
    assert b"compositeWithTrainedAlgorithmicMedia" in data
    found = read_image(data).ingredients
    assert [(each["title"], each.get("instance_id")) for each in found] == [("image", "sha256:0123"), ("latent", None)]


def test_any_flipped_byte_is_refused() -> None:
    data = a_signer().image(png(), states())
    for at in range(0, len(data), 41):
        with pytest.raises(Forged):
            read_image(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.raises(Forged, match="damaged"):
        read_image(data[:-1])


def test_pixels_that_were_changed_with_all_checksums_are_refused() -> None:
    with pytest.raises(Forged, match="its bytes are not those that were signed"):
        read_image(other_pixels(a_signer().image(png(), states())))


def other_pixels(data: bytes) -> bytes:
    """Another image with the manifest of a signed one."""
    at, other = data.index(b"caBX") - 4, png("blue")
    return other[:33] + data[at : at + 12 + int.from_bytes(data[at : at + 4], "big")] + other[33:]


@pytest.mark.parametrize(
    ("data", "why"),
    [(png(), "has no receipt"), (b"GIF89a", "is no PNG, JPEG or WebP"), (b"\x89PNG\r\n\x1a\n", "damaged|no receipt")],
)
def test_a_file_without_a_receipt_says_so(data: bytes, why: str) -> None:
    with pytest.raises(Forged, match=why):
        read_image(data)


def test_only_authorities_that_are_named_are_trusted(authority: Authority) -> None:
    other = Authority("Others")
    signer = Signer(*authority.pair())
    data, record = signer.image(png(), states()), signer.record({"score": 0.5})
    for trusted, is_trusted in ((authority.certificate, True), (other.certificate, False), (b"", False)):
        both = read_image(data, trusted), read_record(json.dumps(record).encode(), trusted)
        assert [each.is_trusted for each in both] == [is_trusted] * 2
    forger = Signer(*demo_pair())
    forged = forger.record({"score": 0.5}) | {"certificates": record["certificates"]}
    with pytest.raises(Forged, match="not as it was signed"):
        read_record(json.dumps(forged).encode(), authority.certificate)


def test_a_certificate_that_has_expired_signs_nothing_and_vouches_for_nothing(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidSettings, match="is not valid now: it ends on"):
        Signer(*authority.pair(days=-1))
    record = Signer(*authority.pair()).record({})
    monkeypatch.setattr(receipts, "datetime", Mock(now=lambda zone: datetime.now(zone) + timedelta(days=40)))
    assert not read_record(json.dumps(record).encode(), authority.certificate).is_trusted


def test_a_changed_decision_is_refused() -> None:
    signed = a_signer().record(a_decision(png()))
    assert read_record(json.dumps(signed).encode()).states == a_decision(png())
    for change in ({"plan_version": 99}, {"stages": []}, {"wrong_at_most": 0.01}):
        with pytest.raises(Forged, match="the decision is not as it was signed"):
            read_record(json.dumps(signed | {"record": signed["record"] | change}).encode())
    with pytest.raises(Forged, match="no signed record"):
        read_record(b'{"record": {}}')


def test_a_flipped_byte_of_the_certificates_beside_a_decision_is_refused() -> None:
    signed = a_signer().record(a_decision(png()))
    chain = bytearray(pem_of(signed["certificates"]))
    for at in range(len(chain)):
        flipped = bytes([*chain[:at], chain[at] ^ 1, *chain[at + 1 :]])
        with pytest.raises(Forged):
            read_record(json.dumps(signed | {"certificates": pem_from(flipped)}).encode())


def pem_of(text: str) -> bytes:
    return base64.b64decode("".join(text.splitlines()[1:-1]))


def pem_from(data: bytes) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{base64.encodebytes(data).decode()}-----END CERTIFICATE-----\n"


def test_a_decision_about_another_image_prompt_or_plan_does_not_join() -> None:
    data = a_signer().image(png(), stated := states())
    decision = a_decision(data)
    assert disagreement(data, stated, decision) == ""
    assert decision["stages"][0] | {"discriminator": ""} == {
        "level": "light", "plan_version": stated["plan_version"], "discriminator": "", "score": 0.8, "threshold": 0.7,
        "kept": True,
    }  # fmt: skip
    assert (decision["wrong_at_most"], decision["end"]) == (0.05, "COMPLETED")
    assert "is of other images" in disagreement(png(), stated, decision)
    assert "the prompt's digest of the file" in disagreement(data, states("a blue heart"), decision)
    assert "the plan version of the file is 99" in disagreement(data, states(plan_version=99), decision)


def test_keys_rotate_without_a_restart_and_old_images_verify(authority: Authority, tmp_path: Path) -> None:
    files = tmp_path / "certificate.pem", tmp_path / "key.pem"

    def put(*pair: bytes) -> None:
        for file, data in zip(files, pair, strict=True):
            file.with_suffix(".new").write_bytes(data)
            file.with_suffix(".new").replace(file)

    put(*authority.pair("first"))
    keys = KeyFiles(Receipts(certificate=str(files[0]), key=str(files[1])))
    first = keys.signer().image(png(), states())
    put(authority.pair("second")[0], authority.pair("second")[1])  # of two pairs: half of a rotation
    assert read_image(keys.signer().image(png(), states())).signer == "first"
    put(*authority.pair("second"))
    second = keys.signer().image(png(), states())
    read = [read_image(data, authority.certificate) for data in (first, second)]
    assert [(each.signer, each.is_trusted) for each in read] == [("first", True), ("second", True)]


def test_the_page_s_commands_make_certificates_that_sign(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    page = (ROOT / "agents" / "features" / "RECEIPTS.md").read_text()
    (block,) = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
    subprocess.run(["bash", "-ec", block], cwd=tmp_path, check=True, capture_output=True)
    files = Receipts(certificate=str(tmp_path / "signer.pem"), key=str(tmp_path / "signer.key"))
    found = read_image(KeyFiles(files).signer().image(png(), states()), (tmp_path / "ca.pem").read_bytes())
    assert (found.signer, found.is_trusted) == ("images of example", True)


def test_a_key_that_does_not_fit_lets_nothing_start(authority: Authority, tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="not that of the first certificate"):
        Signer(authority.pair()[0], authority.pair()[1])
    with pytest.raises(InvalidSettings, match=r"cannot be signed: .*No such file"):
        KeyFiles(Receipts(certificate=str(tmp_path / "none"), key=str(tmp_path / "none")))
    for half in ({"certificate": "a.pem"}, {"key": "a.pem"}, {"certificate": "demo", "key": "a.pem"}):
        with pytest.raises(InvalidSettings, match="set together"):
            load({"receipts": half})


def pochade(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Call `pochade verify` on a signed file, beside a broker that knows this result; return what it says."""

    def call(*arguments: str, data: bytes | None = None, decision: Any = None) -> str:
        file = tmp_path / "cat.png"
        file.write_bytes(data or a_signer().image(png(), states()))
        monkeypatch.setattr(opening, "client", lambda _settings: io.BytesIO())
        monkeypatch.setattr(opening, "find", lambda *_: decision and "result")
        monkeypatch.setattr("streams.operator.receipts.decision_of", lambda _result: decision)
        done = pochade("verify", str(file), *arguments)
        return done.output + (str(done.exception) if done.exit_code else "")

    return call


def test_verify_says_what_made_a_file_and_why_it_was_kept(verified: Callable[..., str]) -> None:
    data = a_signer().image(png(), states())
    said = verified("--prompt", "a red heart", data=data, decision=a_decision(data))
    assert "file\tas it was signed" in said
    assert "signer\tPochade demo, whose key is public\ntrusted\tfalse\n" in said
    assert "made.steps\t3\n" in said
    assert f'made.weights\t{{"model": "{"ab" * 32}"}}\n' in said
    assert "decision_from\tresult on the broker\n" in said
    assert "decision.why\tkept: confidence 0.80 ≥ 0.70" in said
    shown = json.loads(verified("-o", "json", data=data, decision=a_decision(data)))
    assert (shown["made"]["steps"], shown["trusted"], shown["decision"]["end"]) == (3, False, "COMPLETED")
    assert "not joined: no result is kept" in verified(data=data)


def test_verify_refuses_what_is_forged_with_a_sentence(
    verified: Callable[..., str], authority: Authority, tmp_path: Path
) -> None:
    data = a_signer().image(png(), states())
    trust, receipt = tmp_path / "trust.pem", tmp_path / "receipt.json"
    trust.write_bytes(authority.certificate)
    assert "was not made for the prompt 'a blue heart'" in verified("--prompt", "a blue heart")
    assert "whom no authority in" in verified("--trust", str(trust))
    assert "is of other images" in verified(data=data, decision=a_decision(png()))
    signed = a_signer().record(a_decision(data))
    receipt.write_text(json.dumps({"decision": signed, "images": []}))
    assert "decision_from\tsigned by Pochade demo" in verified("--receipt", str(receipt), data=data)
    signed["record"]["plan_version"] = 99
    receipt.write_text(json.dumps(signed))
    assert "the decision is not as it was signed" in verified("--receipt", str(receipt), data=data)
    own = Signer(*authority.pair()).image(png(), states(plan_version=99))
    assert "the plan version of the file is 99" in verified(data=own, decision=a_decision(own))


def test_the_gateway_answers_with_a_signed_decision_and_what_its_images_state() -> None:
    deployment = Deployment(receipts=Receipts(certificate="demo"))
    data = a_signer().image(png(), states())
    deployment.ends(data, path=json.dumps([]))
    request_id = posted(deployment, {"input": HEART}, "/v1/predictions").json()["id"]
    answer = got(deployment, f"/v1/receipts/{request_id}")
    record, signer, *_ = read_record(answer.content)
    assert (record["request_id"], record["end"], signer) == (
        request_id,
        "COMPLETED",
        "Pochade demo, whose key is public",
    )
    (image,) = answer.json()["images"]
    assert image["states"]["made"]["steps"] == 3
    assert "is of other images" in image["fault"]


def test_the_gateway_gives_no_receipt_of_other_tenants_nor_where_receipts_are_off() -> None:
    deployment = Deployment(Gateway(authentication="bearer"), receipts=Receipts(certificate="demo"))
    own, other = (f"Bearer {deployment.key(tenant)}" for tenant in ("studio", "others"))
    deployment.ends(a_signer().image(png(), states()))
    request_id = posted(deployment, {"input": HEART}, "/v1/predictions", authorization=own).json()["id"]
    codes = [
        spoken(deployment, lambda http, key=key: http.get(f"/v1/receipts/{request_id}", headers={"authorization": key}))
        for key in (own, other)
    ]
    assert [each.status_code for each in codes] == [200, 404]
    assert "tenant 'others' has no request" in codes[1].text
    off = Deployment()
    assert "receipts.certificate is empty" in got(off, "/v1/receipts/none").text, "of whatever request"
    off.ends(png())
    request_id = posted(off, {"input": HEART}, "/v1/predictions").json()["id"]
    answer = got(off, f"/v1/receipts/{request_id}")
    assert (answer.status_code, "receipts.certificate is empty" in answer.text) == (404, True)


def answered(deployment: Deployment, stored: bytes, wanted: Format) -> bytes:
    """What the gateway answers of a stored image, in a format."""
    uri = deployment.store.put("r-1-0", stored)
    return asyncio.run(deployment.pipeline.image(uri, wanted))


@pytest.mark.parametrize(
    "wanted", [Format("jpeg", 90), Format("jpeg"), Format("webp", 80), Format("webp"), Format(size="8x8")]
)
def test_another_form_of_a_signed_image_has_a_receipt_of_its_own(wanted: Format) -> None:
    stored = a_signer().image(png(), states(), [{"title": "image", "instance_id": "sha256:0123"}])
    data = answered(Deployment(receipts=Receipts(certificate="demo")), stored, wanted)
    bare = answered(Deployment(), stored, wanted)
    read, decision = read_image(data), a_decision(stored)
    assert read.states == states() | {"stored_sha256": hashlib.sha256(stored).hexdigest()}
    assert [each["title"] for each in read.ingredients] == ["image"]
    assert b"compositeWithTrainedAlgorithmicMedia" in data
    assert disagreement(data, read.states, decision) == ""
    assert "is of other images" in disagreement(data, read.states, a_decision(png()))
    with Image.open(io.BytesIO(data)) as one, Image.open(io.BytesIO(bare)) as other:
        assert (one.format, one.tobytes()) == (wanted.name.upper(), other.tobytes())
    assert len(data) - len(bare) < 6000
    pixels = data.index(bare[-10:-4])
    with pytest.raises(Forged, match="not as it was signed"):
        read_image(data[:pixels] + bytes([data[pixels] ^ 1]) + data[pixels + 1 :])


def test_another_form_of_an_image_without_a_valid_receipt_is_answered_without_one_and_counted() -> None:
    deployment, signed = Deployment(receipts=Receipts(certificate="demo")), a_signer().image(png(), states())
    unsigned = metrics.FALLBACKS.labels("gateway", "receipt")._value
    for stored in (png(), other_pixels(signed)):
        before = unsigned.get()
        with pytest.raises(Forged, match="has no receipt"):
            read_image(answered(deployment, stored, Format("jpeg")))
        assert unsigned.get() == before + 1

"""The local issuer of tokens, authenticators, and the two people that a fresh stack knows."""

import base64
import hashlib
import hmac
import json
import os
import struct
import subprocess
import time

from common import HOME, Failure, aws_environment, say
from deploy import AUDIENCE, ISSUER, client
from tools import OPS

KEY_FILE = HOME / "issuer.pem"
TOKEN_S = 12 * 60 * 60
STEP_S = 30

# The template refuses a key of this name anywhere but on a local stack.
KEY_NAME = "furikomi-local-only"

# What the seed opens: user, account, holder, balance in yen, channels.
PEOPLE = (
    ("aoi", "acct-aoi-0001", "Aoi Tanaka", 70_000, "ja"),
    ("ren", "acct-ren-0002", "Ren Sato", 0, "en"),
)


def key():
    """The issuer's private key; made at its first use, and kept in .stack alone."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    if not KEY_FILE.exists():
        HOME.mkdir(parents=True, exist_ok=True)
        fresh = ec.generate_private_key(ec.SECP256R1())
        KEY_FILE.touch(mode=0o600)
        KEY_FILE.write_bytes(fresh.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return serialization.load_pem_private_key(KEY_FILE.read_bytes(), None)


def key_id():
    from cryptography.hazmat.primitives import serialization

    public = key().public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return f"{KEY_NAME}-{hashlib.sha256(public).hexdigest()[:12]}"


def public_key():
    """The issuer's public key as PEM, as anybody may know it."""
    from cryptography.hazmat.primitives import serialization

    return key().public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()


def jwks():
    """The issuer's public key as a JWK Set (RFC 7517)."""
    from jwt.algorithms import ECAlgorithm

    jwk = ECAlgorithm.to_jwk(key().public_key(), as_dict=True)
    return json.dumps({"keys": [{**jwk, "kid": key_id(), "alg": "ES256", "use": "sig"}]}, separators=(",", ":"))


def token(user, session="local-session"):
    import jwt

    now = int(time.time())
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": user, "sid": session, "iat": now, "exp": now + TOKEN_S}
    return jwt.encode(claims, key(), algorithm="ES256", headers={"kid": key_id()})


def code_at(secret_base32, step):
    """The code of a step (RFC 6238, SHA-1, six digits)."""
    secret = base64.b32decode(secret_base32 + "=" * (-len(secret_base32) % 8))
    digest = hmac.new(secret, struct.pack(">Q", step), hashlib.sha1).digest()
    offset = digest[-1] & 0x0F
    return f"{(struct.unpack_from('>I', digest, offset)[0] & 0x7FFFFFFF) % 1_000_000:06}"


def authenticator(outputs, user):
    """Where the secret of a user's authenticator is kept, apart for every stack."""
    return HOME / "totp" / outputs["ApiId"] / f"{user}.json"


def fresh_code(outputs, user):
    """A code that was not given out before: a step is accepted once. Waits for the next step where it has to."""
    file = authenticator(outputs, user)
    if not file.exists():
        raise Failure(f"there is no authenticator of {user}'s: `infra/stack up` enrols aoi and ren")
    known = json.loads(file.read_text())
    while True:
        now = int(time.time()) // STEP_S
        step = max(now, known["last_step"] + 1)
        if step <= now + 1:  # the next step's code is accepted already
            break
        time.sleep(STEP_S - time.time() % STEP_S)
    file.write_text(json.dumps({**known, "last_step": step}))
    return code_at(known["secret"], step)


def push_address(engine, user):
    """A phone that push messages go to: a platform endpoint of SNS."""
    sns = client(engine, "sns")
    application = sns.create_platform_application(
        Name="furikomi", Platform="GCM", Attributes={"PlatformCredential": "local"})["PlatformApplicationArn"]
    return sns.create_platform_endpoint(PlatformApplicationArn=application, Token=f"phone-of-{user}")["EndpointArn"]


def environment(engine, outputs):
    """What `ops` needs to work on the stack."""
    return {
        **aws_environment(engine["endpoint"]),
        "FURIKOMI_CORE_TABLE": outputs["CoreTable"],
        "FURIKOMI_LEDGER_TABLE": outputs["LedgerTable"],
        "FURIKOMI_OUTBOX_TABLE": outputs["OutboxTable"],
        "FURIKOMI_NOTIFICATIONS_TABLE": outputs["NotificationsTable"],
        "FURIKOMI_QUEUE_URL": outputs["EventsQueueUrl"],
        "FURIKOMI_KMS_KEY": outputs["TotpKeyArn"],
    }


def ops(engine, outputs, *arguments):
    """What `ops` answers; it has to do what it is told."""
    done = subprocess.run(
        [OPS, "--json", "--operator", "infra/stack", *arguments], env={**os.environ, **environment(engine, outputs)},
        capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"ops {' '.join(arguments)} failed: {done.stderr.strip() or done.stdout.strip()}")
    return json.loads(done.stdout)


def seed(engine, outputs):
    """Opens two accounts, once per stack: Aoi with 70,000 yen, Ren with none. Every step can be repeated."""
    if all(authenticator(outputs, user).exists() for user, *_ in PEOPLE):
        say("· people: Aoi and Ren have accounts already")
        return
    begun = time.monotonic()
    for user, account, name, balance, locale in PEOPLE:
        ops(engine, outputs, "accounts", "open", account, "--owner", user, "--name", name, "--currency", "JPY")
        ops(engine, outputs, "identity", "verify", account)
        if balance:
            ops(engine, outputs, "deposit", account, str(balance), "--reference", "seed")
        ops(engine, outputs, "contacts", "set", user, "--locale", locale, "--email", f"{user}@example.com",
            "--push", push_address(engine, user))
        shown = ops(engine, outputs, "totp", "enroll", user, "--show")
        # The secret comes last: where it is kept, everything before it was done.
        file = authenticator(outputs, user)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
        file.write_text(json.dumps({"secret": shown["totp_secret_base32"], "last_step": 0}))
    say(f"· opening accounts for Aoi and Ren: {time.monotonic() - begun:.1f} s")

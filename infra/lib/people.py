"""The local issuer of tokens, authenticators, and the two people that a fresh stack knows."""

import base64
import hashlib
import hmac
import json
import struct
import time
import urllib.error
import urllib.request
from urllib.parse import parse_qs, urlparse

from common import HOME, Failure, say
from deploy import AUDIENCE, ISSUER, api_url, client

KEY_FILE = HOME / "issuer.pem"
TOKEN_S = 12 * 60 * 60
STEP_S = 30

# The template refuses a key of this name anywhere but on a local stack.
KEY_NAME = "furikomi-local-only"

BANK_ACCOUNT = "internal-jpy"

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


def call(method, url, bearer, body=None, headers=None, timeout=30):
    """Status and JSON of one call of the API."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {
        "Authorization": f"Bearer {bearer}", "Content-Type": "application/json", **(headers or {})}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        text = error.read()
        try:
            return error.code, json.loads(text)
        except json.JSONDecodeError:
            return error.code, {"text": text.decode(errors="replace")}
    except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
        return 0, {"error": str(error)}


def enrol(base, outputs, user):
    """Enrols an authenticator as a person does: over the API, by the code of the new secret."""
    bearer = token(user)
    status, shown = call("POST", f"{base}/v1/totp", bearer, {})
    if status != 201:
        raise Failure(f"enrolling {user} failed: {status} {shown}")
    secret = parse_qs(urlparse(shown["otpauth_uri"]).query)["secret"][0]
    # The previous step's code is burned, so that the present one can approve a transfer at once.
    step = int(time.time()) // STEP_S - 1
    status, answer = call("POST", f"{base}/v1/totp/activation", bearer, {"totp_code": code_at(secret, step)})
    if status != 200:
        raise Failure(f"activating {user}'s authenticator failed: {status} {answer}")
    file = authenticator(outputs, user)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_text(json.dumps({"secret": secret, "last_step": step}))


def push_address(engine, user):
    """A phone that push messages go to: a platform endpoint of SNS."""
    sns = client(engine, "sns")
    application = sns.create_platform_application(
        Name="furikomi", Platform="GCM", Attributes={"PlatformCredential": "local"})["PlatformApplicationArn"]
    return sns.create_platform_endpoint(PlatformApplicationArn=application, Token=f"phone-of-{user}")["EndpointArn"]


def seed(engine, outputs):
    """Opens two accounts, once per stack: Aoi with 70,000 yen, Ren with none."""
    base = api_url(engine, outputs)
    status, answer = call("GET", f"{base}/v1/accounts", token("aoi"))
    if status == 200 and answer["accounts"] and authenticator(outputs, "ren").exists():
        say("· people: Aoi and Ren have accounts already")
        return
    begun = time.monotonic()
    open_accounts(engine, outputs)
    for user, *_ in PEOPLE:
        enrol(base, outputs, user)
    say(f"· opening accounts for Aoi and Ren: {time.monotonic() - begun:.1f} s")


def open_accounts(engine, outputs):
    """Opens and funds the accounts by writing their items: a deposit is a journal with its two entries, from the bank's
    own account. The one place here that knows the store's items (shared/src/store/schema.rs); the operators' tool is to
    take it over."""
    dynamodb = client(engine, "dynamodb")
    now = int(time.time() * 1000)
    written_at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 1000)) + f".{now % 1000:03}Z"

    def put(table, pk, sk, **attributes):
        item = {name: typed(value) for name, value in {"pk": pk, "sk": sk, **attributes}.items()}
        dynamodb.put_item(TableName=outputs[table], Item=item)

    def account(identity, owner, name, balance, kind):
        put("LedgerTable", f"ACCOUNT#{identity}", "ACCOUNT", owner_id=owner, holder_name=name, currency_code="JPY",
            account_status="ACTIVE", identity_verified=True, balance_minor=balance, daily_amount_limit_minor=1_000_000,
            daily_count_limit=50, per_transfer_limit_minor=500_000, account_kind=kind)

    def deposit(identity, name, amount):
        digest = hashlib.sha256(f"seed {identity}".encode()).digest()
        transfer = "tr_" + base64.b32encode(digest)[:32].decode().lower()
        common = {"transfer_id": transfer, "amount_minor": amount, "currency_code": "JPY", "posted_at": now}
        put("LedgerTable", f"TRANSFER#{transfer}", "JOURNAL", **common, journal_kind="deposit", user_id="bank",
            source_account_id=BANK_ACCOUNT, destination_account_id=identity)
        for entry_account, direction, other in ((BANK_ACCOUNT, "DEBIT", name), (identity, "CREDIT", "furikomi")):
            put("LedgerTable", f"ACCOUNT#{entry_account}", f"ENTRY#{written_at}#{transfer}", **common,
                direction=direction, counterparty_name=other, memo="")

    account(BANK_ACCOUNT, "bank", "furikomi", -sum(person[3] for person in PEOPLE), "INTERNAL")
    for user, identity, name, balance, locale in PEOPLE:
        account(identity, user, name, balance, "CUSTOMER")
        put("CoreTable", f"USER#{user}", f"ACCOUNT#{identity}")
        put("CoreTable", f"USER#{user}", "CONTACT", contact_locale=locale, contact_channels=["EMAIL", "PUSH"],
            email_address=f"{user}@example.com", push_address=push_address(engine, user))
        if balance:
            deposit(identity, name, balance)


def typed(value):
    """A value as DynamoDB names its type."""
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int):
        return {"N": str(value)}
    return {"L": [typed(entry) for entry in value]} if isinstance(value, list) else {"S": value}

# SPDX-License-Identifier: Apache-2.0
"""Why did TLS with a server fail? A second handshake, with Python's ssl, tells.

libldap reports most TLS failures as "Can't contact LDAP server". This module is used
only after such a failure; the load itself never goes through Python's ssl. It blocks.
"""

from __future__ import annotations

import socket
import ssl

from ldapslam.jobs.connection_settings import TlsSettings

_START_TLS_OID = b"1.3.6.1.4.1.1466.20037"
#: The request of RFC 4511 section 4.14.1 as BER: SEQUENCE { messageID 1, [APPLICATION
#: 23] { [0] OID } }.
START_TLS_REQUEST = b"\x30\x1d\x02\x01\x01\x77\x18\x80\x16" + _START_TLS_OID
_MAX_RESPONSE_BYTES = 4096

_UNKNOWN_CA_HINT = (
    "`tls.ca_file` must hold the authority that signed the server's certificate; "
    "without it the agent's system authorities count"
)
_NAME_HINT = "use a host name in `targets` that is in the certificate"
#: Verification errors of OpenSSL's x509_vfy.h.
_CERT_HAS_EXPIRED = 10
_HINTS = {
    9: "is the agent's clock right?",  # not yet valid
    _CERT_HAS_EXPIRED: "renew the server's certificate; is the agent's clock right?",
    # an authority of the right name with another key; self-signed, alone or in the
    # chain; no local issuer; a leaf that cannot be verified
    **dict.fromkeys((7, 18, 19, 20, 21), _UNKNOWN_CA_HINT),
    **dict.fromkeys((62, 64), _NAME_HINT),  # another host name, another address
}


def explain_tls_failure(
    host: str,
    port: int,
    *,
    tls: TlsSettings,
    timeout_s: float,
    address: str | None = None,
) -> tuple[str, str | None]:
    """What is wrong (empty: no more than libldap said) and the remedy, if known. The
    certificate must name `host`; `address` is where to connect."""
    try:
        context = ssl.create_default_context(cafile=tls.ca_file if tls.verify else None)
        if not tls.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
    except (OSError, ssl.SSLError) as error:
        return (
            f"the file of authorities cannot be read: {error.strerror or error}",
            "`tls.ca_file` must be a PEM file of certificates",
        )
    try:
        with socket.create_connection((address or host, port), timeout_s) as raw:
            if tls.start_tls and not (answer := _start_tls(raw)):
                if answer is None:
                    return (
                        "the server closed the connection when asked for StartTLS",
                        f"is it a port for TLS from the first byte? write ldaps://{host}:"
                        f"{port} and leave StartTLS out",
                    )
                return "", "the server has no TLS set up, or offers it as ldaps:// only"
            with context.wrap_socket(raw, server_hostname=host):
                return "", None
    except ssl.SSLCertVerificationError as error:
        text = error.verify_message
        if error.verify_code == _CERT_HAS_EXPIRED:
            text = "the server's certificate has expired"
        elif _HINTS.get(error.verify_code) is _UNKNOWN_CA_HINT:
            text = f"the server's certificate is of an unknown authority ({text})"
        return text, _HINTS.get(error.verify_code)
    except ssl.SSLError as error:
        return (
            f"the handshake failed ({error.reason or error})",
            "is this a TLS port? ldap:// ports need `tls: {start_tls: true}`",
        )
    except TimeoutError:
        return (
            f"the handshake was not finished within {timeout_s:g} s",
            "is this a TLS port?",
        )
    except OSError as error:
        return (
            f"the server broke off the handshake ({error.strerror or error})",
            "does the server have a certificate, and is this a TLS port?",
        )


def _start_tls(raw: socket.socket) -> bool | None:
    """Whether it is granted; None: there is no answer."""
    raw.sendall(START_TLS_REQUEST)
    response = raw.recv(_MAX_RESPONSE_BYTES)
    if not response:
        return None
    # LDAPMessage, messageID 1, extendedResponse 0x78 whose resultCode is 0
    head, _, body = response.partition(b"\x02\x01\x01\x78")
    return head.startswith(b"\x30") and b"\x0a\x01\x00" in body[:8]

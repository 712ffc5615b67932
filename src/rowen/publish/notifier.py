"""The process that sends one message to people: it reads the message from stdin, and prints one word as the result.

Apprise supports services that run programs, show messages on this machine or read files. So only services on the
network are allowed here, and Python refuses other actions of this process.
"""

import json
import os
import ssl
import sys
from collections.abc import Sequence
from ipaddress import ip_address, ip_network
from typing import Any

from rowen.net.target import refusal

# Services on this machine (syslog, desktops, USB) and services whose key is a file are excluded.
_NAMES = """
    46elks amqp amqps apprise apprises aprs atalk azure bark barks betterstack bluesky brevo bsky bulksms bulkvs
    burstsms chanify clickatell clicksend cliq cm d7sms dapnet deltachat deltachats dingtalk discord dot eight00com
    elks emby embys enigma2 enigma2s evolution evolutions exotel feishu firehydrant flock flowtriq flowtriqs fluxer
    fluxers form forms freemobile gchat github goalert goalerts gorush gorushs gotify gotifys groundmail groupme
    growl guilded gupshup hassio hassios httpsms humhub humhubs ifttt ilert incidentio infobip irc ircs jellyfin
    jellyfins jira join json jsons kakao kakaotalk kaleyra kavenegar klr kodi kodis kook kudosity kumulos lametric
    lametrics lark lauther lfg line mailersend mailgun mailto mailtos mastodon mastodons matrix matrixs misskey
    misskeys mmost mmosts mobilemessage mobilemsg mqtt mqtts msg91 msgbird ncloud nclouds nctalk nctalks nexmo nostr
    notica noticas notifiarr notifico notificos notifyre ntfy ntfys o365 octopush onebot onebots onesignal opsgenie
    pagerduty pagertree parsep parseps pbul pinglet pinglets pingram pjet pjets plivo postmark pover prowl psafer
    psafers push pushdeer pushdeers pushed pushme pushplus pushward pushy qq reddit resend revolt ringc rocket
    rockets rsyslog ryver schan sendgrid sendpulse serwersms ses session sessions seven sfr signal signalgrid
    signals signl4 simplepush sinch slack smpp smpps smsc smseagle smseagles smsmanager smsmgr smstunnel smtp2go sns
    sogs sparkpost spike splunk spugpush spush squadcast stackfield strmlabs synology synologys telesign telnyx
    tgram threema toot toots trigv trigvs tweet twilio twist twitter viber victorops voipms vonage webex wechat
    wecom wecombot whapi whatsapp workflow workflows wpush wxpusher wxteams x xbmc xbmcs xmatters xml xmls xmpp
    xmpps youlmk zalo zcliq zohocliq zoom zulip
"""
SERVICES = frozenset(_NAMES.split())
"""The schemes of addresses that are allowed."""

# Folders of packages, certificates and system tables; the interpreter's own folders are added.
_READABLE = ("/usr", "/lib", "/lib64", "/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/mime.types", "/dev/null")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "pty.spawn")
_REACHES = ("socket.connect", "socket.sendto", "socket.sendmsg")


def main() -> None:
    """Send the message on stdin; print `sent`, `refused ADDRESS`, `unreadable`, `missing` or `failed`."""
    message = json.load(sys.stdin)
    refused: list[str] = []
    confine([ip_network(network) for network in message["allowed"]], refused)
    answer = _send(message)
    print(f"refused {refused[0]}" if refused and answer == "failed" else answer)  # noqa: T201 (it is the answer)


def confine(allowed: Sequence[Any], refused: list[str]) -> None:
    """Restrict this process: refuse addresses that are not allowed, files except Python's own, and other programs.

    Python calls its audit hooks before such an action of any module. A hook cannot be removed.
    """
    # The variables SSL_CERT_FILE and SSL_CERT_DIR may name other certificates.
    certificates = ssl.get_default_verify_paths()
    own = (sys.prefix, sys.base_prefix, sys.exec_prefix, certificates.cafile, certificates.capath)
    readable = [os.path.realpath(path) for path in (*_READABLE, *sys.path, *own) if path]

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _REACHES:
            # A message without an address is sent to the address to which its socket is connected.
            if arguments[1] is not None:
                _check_address(arguments[1], allowed, refused)
        elif event == "open":
            path, _, flags = arguments
            # A file that is open already has a number instead of a path.
            if isinstance(path, int):
                return
            place = os.path.realpath(os.fsdecode(path))
            is_readable = any(place == root or place.startswith(f"{root.rstrip('/')}/") for root in readable)
            if not is_readable or (isinstance(flags, int) and flags & _WRITES and place != os.devnull):
                raise PermissionError("a file")
        elif event in _STARTS or event.startswith("syslog."):
            raise PermissionError(event)

    sys.addaudithook(watch)


def _check_address(address: Any, allowed: Sequence[Any], refused: list[str]) -> None:
    if not isinstance(address, tuple):
        refused.append("a local socket")
        raise ConnectionRefusedError
    # Host names are refused: the system would resolve them after this check.
    try:
        why = refusal(ip_address(str(address[0]).partition("%")[0]), allowed)
    except ValueError:
        why = "a name"
    if why is not None:
        refused.append(f"{address[0]} ({why})")
        raise ConnectionRefusedError(f"{address[0]} ({why})")


def _send(message: dict[str, Any]) -> str:
    if message["address"].strip().partition("://")[0].lower() not in SERVICES | {"http", "https"}:
        return "unreadable"
    try:
        import apprise
    except ImportError:
        return "missing"
    service = apprise.Apprise.instantiate(message["address"])
    if service is None:
        return "unreadable"
    # The service behind a web address (https://…) is known only now.
    schemes = set[str]()
    for names in (type(service).protocol, type(service).secure_protocol):
        schemes |= {names} if isinstance(names, str) else set(names or ())
    if not schemes - {""} <= SERVICES:
        return "unreadable"
    target = apprise.Apprise(service)
    is_sent = target.notify(title=message["subject"], body=message["text"], body_format="text")
    return "sent" if is_sent else "failed"

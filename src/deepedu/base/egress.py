"""Nothing leaves this machine but to the servers that the school named.

``guard`` puts an audit hook under Python's ``socket`` module, below every library that is written in Python (asyncio,
httpx, urllib): a connection, a datagram or a name lookup that is not to loopback or to a named endpoint raises
``EgressRefused``. An audit hook cannot be taken out again. Listening and answering whoever connects is untouched.

What it does not see, because no Python code runs there:

* C, C++ and Rust libraries with sockets of their own: uvloop, grpc, curl, NCCL, the ``hf_xet`` part of
  huggingface_hub. Do not use them in a guarded process, or switch their network off by their own settings.
* Child processes. Ours call ``guard`` in their own entry; a foreign program is not guarded.
* Sub-interpreters, sockets connected before ``guard``, and sockets handed over by another process.
* Names in calls that pass by ``socket.socket`` (``_socket.socket().connect((name, port))``): the connection is
  refused, but C looks the name up before the hook is asked. The methods of ``socket.socket`` are checked before that.
* Code that means harm: ``ctypes`` calls what it likes. This guards against libraries that phone home and against
  mistakes. Against intruders stands the firewall (``IPAddressDeny=any`` of systemd, a container without a route).

Named endpoints are not looked into: what is sent to them is for whoever named them to judge. A proxy from the
environment is a server like any other and refused unless named.
"""

import errno
import functools
import ipaddress
import logging
import socket
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from deepedu.base.errors import ConfigError, DeepEduError

log = logging.getLogger(__name__)

# The settings that name servers outside.
URL_SETTINGS = (
    "store.url",
    "llm.url",
    "search.embeddings_url",
    "playbook.reflector_url",
    "playbook.judge_url",
    "server.oidc_issuer",
)

_DEFAULT_PORTS = {"http": 80, "https": 443}
_INTERNET = frozenset((socket.AF_INET, socket.AF_INET6))
# Between processes of this machine, or to its kernel. All other families (packet, bluetooth, vsock) can leave it.
_LOCAL_FAMILIES = frozenset(
    int(getattr(socket, name)) for name in ("AF_UNIX", "AF_NETLINK", "AF_ALG") if hasattr(socket, name)
)
_INSTALLED_EVENT = "deepedu.egress.installed"
# A program that tries ever new names must not fill the memory or the log.
_MOST_TOLD = 1000
_LONGEST_TARGET = 260


class EgressRefused(DeepEduError, ConnectionError):
    """A connection that the school did not allow. To libraries it is a connection that failed."""

    code = "egress_refused"
    http_status = 502

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.errno = errno.EACCES


@dataclass(frozen=True)
class Endpoint:
    """A server that may be reached: a host name or numeric address, and one port."""

    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> "Endpoint":
        """The server that a URL points to.

        Raises:
            ConfigError: not an http(s) URL with a host.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme)
        except ValueError:
            host = port = None
        if not host or port is None:
            raise ConfigError(f"expected a URL like http://10.0.0.5:8399/v1, came {url!r}")
        return cls(host, port)


def guard(allowed: Iterable[Endpoint], *, settings: Sequence[str] = URL_SETTINGS) -> None:
    """Refuses, from now on and in the whole process, every outgoing connection but to loopback and to ``allowed``.

    Addresses of an allowed name are allowed on that endpoint's port. To listen on an address given by name, allow it.

    Args:
        settings: the settings that a refusal names as the place to allow more.

    Raises:
        ConfigError: the process is guarded already, with other endpoints; or the hook could not be put in.
    """
    global _installed
    endpoints = frozenset((_plain_host(endpoint.host), endpoint.port) for endpoint in allowed)
    with _installing:
        if _installed is not None:
            if _installed.endpoints != endpoints:
                raise ConfigError("the guard of outgoing connections cannot be changed: restart with the new settings")
            return
        installed = _Guard(endpoints, settings)
        _check_names_early(installed)
        _remember_addresses(installed)
        sys.addaudithook(installed.hook)
        # Another hook may veto this one, and Python then says nothing.
        sys.audit(_INSTALLED_EVENT)
        if not installed.is_active:
            raise ConfigError("another audit hook keeps the guard of outgoing connections out: start without that hook")
        _installed = installed


class _Guard:
    """What may be reached, and the answer to each audit event."""

    def __init__(self, endpoints: frozenset[tuple[str, int]], settings: Sequence[str]) -> None:
        self.endpoints = endpoints
        self.is_active = False
        self._settings = ", ".join(settings)
        self._hosts = frozenset(host for host, _ in endpoints)
        self._resolved: set[tuple[str, int]] = set()
        self._told: set[str] = set()
        self._thread = threading.local()
        self._checks: dict[str, Callable[..., None]] = {
            "socket.connect": self.check_destination,
            "socket.sendto": self.check_destination,
            "socket.sendmsg": self.check_destination,
            "socket.getaddrinfo": self._check_lookup,
            "socket.gethostbyname": self._check_lookup,
            "socket.gethostbyaddr": self._check_reverse_lookup,
            "socket.getnameinfo": self._check_reverse_lookup,
            _INSTALLED_EVENT: self._activate,
        }

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        """Called at every audit event of the process, of which nearly all are none of ours."""
        check = self._checks.get(event)
        if check is not None:
            check(*args)

    def check_destination(self, sock: Any, address: tuple[Any, ...] | str | bytes | None) -> None:
        """Refuses ``address`` unless it is allowed; None is a datagram to where the socket is connected already."""
        if address is None or sock.family in _LOCAL_FAMILIES:
            return
        if sock.family not in _INTERNET or not isinstance(address, tuple):
            self._refuse(f"{sock.family!r}")
        host, port = _plain_host(address[0]), int(address[1])
        if not _is_local(host) and (host, port) not in self.endpoints and (host, port) not in self._resolved:
            self._refuse(_shown(host, port))

    @contextmanager
    def looking_up(self) -> Generator[None, None, None]:
        """While the caller itself will hand over what a lookup finds."""
        outer = getattr(self._thread, "is_looking_up", False)
        self._thread.is_looking_up = True
        try:
            yield
        finally:
            self._thread.is_looking_up = outer

    def remember(self, host: Any, found: Iterable[tuple[Any, ...]]) -> None:
        """Allows the addresses that an allowed name has, each on the ports of that name."""
        name = None if host is None else _plain_host(host)
        if name in self._hosts:
            ports = [port for allowed, port in self.endpoints if allowed == name]
            self._resolved.update((_plain_host(entry[4][0]), port) for entry in found for port in ports)

    def _activate(self) -> None:
        self.is_active = True

    def _check_lookup(self, host: Any, *_rest: Any) -> None:
        if host is None:
            return
        name = _plain_host(host)
        if _is_local(name) or _address(name) is not None:
            return
        if name not in self._hosts:
            self._refuse(name)
        if not getattr(self._thread, "is_looking_up", False):
            # Asked by a way that will not tell what it found: look for ourselves.
            with self.looking_up():
                try:
                    found = _lookup(name, None)
                except OSError:
                    return  # Whoever asked is about to be told the same.
            self.remember(name, found)

    def _check_reverse_lookup(self, address: Any) -> None:
        host = _plain_host(address[0] if isinstance(address, tuple) else address)
        known = self._hosts | {host for host, _ in self._resolved}
        if not _is_local(host) and host not in known:
            self._refuse(host)

    def _refuse(self, target: str) -> None:
        shown = "".join(c if c.isprintable() else "?" for c in target[:_LONGEST_TARGET])
        if shown not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add(shown)
            log.warning(
                "refused an outgoing connection to %s; %s name the servers that are allowed", shown, self._settings
            )
        raise EgressRefused(
            f"DeepEdu chỉ được nối tới máy chủ mà nhà trường đã khai báo, nhưng có kết nối ra {shown}: đã chặn. "
            f"Nếu đó là máy chủ của trường, hãy khai báo nó trong thiết lập ({self._settings}) rồi khởi động lại"
        )


_installed: _Guard | None = None
_installing = threading.Lock()
_lookup = socket.getaddrinfo


def _check_names_early(installed: _Guard) -> None:
    """Has the methods of ``socket.socket`` ask before C looks a name up: the hook is only asked afterwards."""

    def checked(original: Callable[..., Any], address_at: Callable[[tuple[Any, ...]], Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def method(self: socket.socket, *args: Any) -> Any:
            address = address_at(args)
            if isinstance(address, tuple) and isinstance(address[0], str | bytes | bytearray):
                installed.check_destination(self, cast("tuple[Any, ...]", address))
            return original(self, *args)

        return method

    places: dict[str, Callable[[tuple[Any, ...]], Any]] = {
        "connect": lambda args: args[0] if args else None,
        "connect_ex": lambda args: args[0] if args else None,
        "sendto": lambda args: args[-1] if args else None,
        "sendmsg": lambda args: args[3] if len(args) > 3 else None,
    }
    for name, address_at in places.items():
        if hasattr(socket.socket, name):
            setattr(socket.socket, name, checked(getattr(socket.socket, name), address_at))


def _remember_addresses(installed: _Guard) -> None:
    """Has ``socket.getaddrinfo`` hand over what it finds: a second lookup could find other addresses of the name."""
    original = socket.getaddrinfo

    @functools.wraps(original)
    def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        with installed.looking_up():
            found = original(host, *args, **kwargs)
        installed.remember(host, found)
        return found

    socket.getaddrinfo = getaddrinfo


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _plain_host(host: Any) -> str:
    """One spelling of a host: addresses shortest and without zone, IPv4 inside IPv6 as IPv4, names in ASCII."""
    text = bytes(host).decode("ascii", "replace") if isinstance(host, bytes | bytearray) else str(host)
    address = _address(text)
    if address is not None:
        return str(address)
    text = text.rstrip(".").lower()
    try:
        return text if text.isascii() else text.encode("idna").decode("ascii")
    except UnicodeError:
        return text


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    # What the socket module takes for "any" and "all".
    named = {"": "0.0.0.0", "<broadcast>": "255.255.255.255"}.get(host, host)
    try:
        address = ipaddress.ip_address(named.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None) or address


def _is_local(host: str) -> bool:
    """Loopback, or the "any" address, which as a destination is this machine."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback or address.is_unspecified

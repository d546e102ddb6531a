"""The guard of outgoing connections. Each test is a process of its own, because the hook cannot be taken out again."""

import subprocess
import sys
import textwrap

import pytest

from deepedu.base.config import setting_names
from deepedu.base.egress import URL_SETTINGS, EgressRefused, Endpoint
from deepedu.base.errors import ConfigError, DeepEduError

# What every child starts with: a way to await a refusal, and an address of this machine that is not loopback.
PREAMBLE = """
import asyncio, errno, logging, os, socket, sys, threading, time
from deepedu.base.egress import EgressRefused, Endpoint, guard

def refused(call, *args, **kwargs):
    started = time.monotonic()
    try:
        result = call(*args, **kwargs)
    except EgressRefused as error:
        assert time.monotonic() - started < 2
        return str(error)
    except Exception as error:
        raise AssertionError(f"expected a refusal, came {error!r}") from error
    raise AssertionError(f"expected a refusal, came {result!r}")

def own_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))  # A datagram socket only picks its own address here; nothing is sent.
        except OSError:
            print("this machine has no address but loopback")
            sys.exit(77)
        return sock.getsockname()[0]

def listening(host, family=socket.AF_INET):
    server = socket.socket(family)
    server.bind((host, 0))
    server.listen(16)
    return server, server.getsockname()[1]
"""


def child(program: str, *, skip_without_address: bool = False) -> str:
    """Runs a program; what it wrote to both streams."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PREAMBLE + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode == 77 and skip_without_address:
        pytest.skip("this machine has no address but loopback")
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout + done.stderr


def test_a_listening_socket_outside_loopback_is_refused_and_was_reachable_before() -> None:
    child(
        """
        host = own_address()
        server, port = listening(host)
        socket.create_connection((host, port), 5).close()
        guard([])
        message = refused(socket.create_connection, (host, port), 5)
        assert f"{host}:{port}" in message and "llm.url" in message, message
        with socket.socket() as sock:
            refused(sock.connect_ex, (host, port))
            refused(sock.connect, (host, port))
        import _socket
        refused(_socket.socket(socket.AF_INET).connect, (host, port))
        """,
        skip_without_address=True,
    )


def test_an_allowed_endpoint_is_reached_on_its_port_only() -> None:
    child(
        """
        host = own_address()
        (server, port), (other, other_port) = listening(host), listening(host)
        guard([Endpoint(host, port)])
        socket.create_connection((host, port), 5).close()
        with socket.socket() as sock:
            assert sock.connect_ex((host, port)) == 0
        with socket.socket(socket.AF_INET6) as sock:
            assert sock.connect_ex((f"::ffff:{host}", port)) == 0
        refused(socket.create_connection, (host, other_port), 5)
        """,
        skip_without_address=True,
    )


def test_loopback_in_all_its_spellings_works() -> None:
    child(
        """
        server, port = listening("127.0.0.1")
        guard([])
        for host in ("127.0.0.1", "localhost", "0.0.0.0", ""):
            if host:
                socket.create_connection((host, port), 5).close()
            with socket.socket() as sock:
                assert sock.connect_ex((host, port)) == 0, host
        with socket.socket(socket.AF_INET6) as sock:
            sock.connect(("::ffff:127.0.0.1", port))
        everywhere, free_port = listening("0.0.0.0")  # Listening is not touched, nor is answering.
        socket.create_connection(("127.0.0.2", free_port), 5).sendall(b"x")
        assert everywhere.accept()[0].recv(1) == b"x"
        if socket.has_ipv6:
            try:
                six, six_port = listening("::1", socket.AF_INET6)
            except OSError:
                sys.exit(0)
            socket.create_connection(("::1", six_port), 5).close()
            with socket.socket(socket.AF_INET6) as sock:
                sock.connect(("::1", six_port, 0, 0))
        """
    )


def test_addresses_that_only_look_like_loopback_are_refused() -> None:
    child(
        """
        guard([])
        for host in ("::ffff:192.0.2.7", "::127.0.0.1", "64:ff9b::7f00:1", "2001:db8::1", "fe80::1"):
            with socket.socket(socket.AF_INET6) as sock:
                assert ":80" in refused(sock.connect, (host, 80))
        for host in ("128.0.0.1", "192.0.2.7", "255.255.255.255", "<broadcast>", "169.254.169.254", "127.0.0.1.nip.io"):
            with socket.socket() as sock:
                refused(sock.connect, (host, 80))
        """
    )


def test_names_are_not_looked_up() -> None:
    # Without the early check the last three would be looked up in C and end in another error.
    child(
        """
        guard([])
        refused(socket.getaddrinfo, "example.com", 443)
        refused(socket.getaddrinfo, b"example.com", "https")
        refused(socket.getaddrinfo, "Trường.example", None)
        refused(socket.gethostbyname, "example.com")
        refused(socket.gethostbyname_ex, "example.com")
        refused(socket.gethostbyaddr, "192.0.2.7")
        refused(socket.getnameinfo, ("192.0.2.7", 80), 0)
        with socket.socket() as stream, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            refused(stream.connect, ("nowhere.invalid", 80))
            refused(stream.connect_ex, ("nowhere.invalid", 80))
            refused(datagrams.sendto, b"x", ("nowhere.invalid", 53))
            refused(datagrams.sendmsg, [b"x"], [], 0, ("nowhere.invalid", 53))
        # What needs no name server is answered.
        assert socket.getaddrinfo("localhost", 80)
        assert socket.getaddrinfo("192.0.2.7", 80)
        assert socket.getaddrinfo(None, 80)
        assert socket.getfqdn("192.0.2.7") == "192.0.2.7"
        """
    )


def test_datagrams_and_other_families() -> None:
    child(
        """
        guard([])
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.bind(("127.0.0.1", 0))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            # A question to a name server, as a library of its own would ask it.
            refused(sock.sendto, b"query", ("192.0.2.53", 53))
            refused(sock.sendto, b"query", 0, ("192.0.2.53", 53))
            refused(sock.sendmsg, [b"query"], [], 0, ("192.0.2.53", 53))
            refused(sock.connect, ("192.0.2.53", 53))
            sock.sendto(b"a", receiver.getsockname())
            sock.connect(receiver.getsockname())
            sock.sendmsg([b"b"])
            assert receiver.recv(8) + receiver.recv(8) == b"ab"
        left, right = socket.socketpair()
        left.sendmsg([b"x"])
        assert right.recv(1) == b"x"
        if hasattr(socket, "AF_NETLINK"):
            with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as sock:
                sock.connect((0, 0))
        if hasattr(socket, "AF_VSOCK"):
            try:
                sock = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
            except OSError:
                sys.exit(0)
            refused(sock.connect, (2, 1234))
        """
    )


def test_unix_sockets_work() -> None:
    child(
        """
        import tempfile
        guard([])
        with tempfile.TemporaryDirectory() as folder:
            server = socket.socket(socket.AF_UNIX)
            server.bind(f"{folder}/s")
            server.listen()
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(f"{folder}/s")
        """
    )


def test_libraries_see_a_failed_connection() -> None:
    child(
        """
        import urllib.error, urllib.request, httpx
        guard([])
        for url in ("http://192.0.2.7/", "http://example.com/", "http://[2001:db8::1]/"):
            for attempt in (lambda: httpx.get(url), lambda: asyncio.run(fetch(url))):
                async def fetch(url):
                    async with httpx.AsyncClient() as client:
                        await client.get(url)
                try:
                    attempt()
                except httpx.ConnectError as error:
                    chain = [error]
                    while chain[-1].__cause__ or chain[-1].__context__:
                        chain.append(chain[-1].__cause__ or chain[-1].__context__)
                    assert any(isinstance(link, EgressRefused) for link in chain), chain
                else:
                    raise AssertionError(url)
            try:
                urllib.request.urlopen(url, timeout=5)
            except urllib.error.URLError as error:
                assert isinstance(error.reason, EgressRefused)
            else:
                raise AssertionError(url)
        """
    )


def test_httpx_reaches_loopback_and_refuses_an_unnamed_proxy() -> None:
    child(
        """
        import http.server, httpx
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(204)
                self.end_headers()
            def log_message(self, *args):
                pass
        guard([])
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        assert httpx.get(url, trust_env=False).status_code == 204
        async def fetch():
            async with httpx.AsyncClient(trust_env=False) as client:
                return (await client.get(url.replace("127.0.0.1", "localhost"))).status_code
        assert asyncio.run(fetch()) == 204
        try:
            httpx.get(url, proxy="http://192.0.2.7:3128")
        except httpx.ConnectError:
            sys.exit(0)
        sys.exit(1)
        """
    )


def test_asyncio_is_refused_and_serves() -> None:
    child(
        """
        async def main():
            async def answer(reader, writer):
                writer.write(await reader.read(1))
                writer.close()
            server = await asyncio.start_server(answer, "0.0.0.0", 0)
            port = server.sockets[0].getsockname()[1]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"x")
            assert await reader.read(1) == b"x"
            writer.close()
            loop = asyncio.get_running_loop()
            for call in (
                lambda: asyncio.open_connection("192.0.2.7", 80),
                lambda: asyncio.open_connection("example.com", 80),
                lambda: loop.getaddrinfo("example.com", 80),
                lambda: loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=("192.0.2.7", 53)),
            ):
                try:
                    await call()
                except EgressRefused:
                    continue
                raise AssertionError("not refused")
            failed = asyncio.Event()
            class Protocol(asyncio.DatagramProtocol):
                def error_received(self, error):
                    assert isinstance(error, EgressRefused)
                    failed.set()
            transport, _ = await loop.create_datagram_endpoint(Protocol, local_addr=("0.0.0.0", 0))
            transport.sendto(b"x", ("192.0.2.7", 53))
            await asyncio.wait_for(failed.wait(), 5)
            transport.close()
            server.close()
        guard([])
        asyncio.run(main())
        """
    )


def test_addresses_of_an_allowed_name_are_allowed_on_its_port() -> None:
    child(
        """
        host = own_address()
        (server, port), (other, other_port) = listening(host), listening(host)
        answers = {"may-chu.truong.example": host}
        real = socket.getaddrinfo
        socket.getaddrinfo = lambda name, *rest, **named: real(answers.get(name, name), *rest, **named)
        guard([Endpoint("May-chu.truong.example", port)])
        refused(socket.create_connection, (host, port), 5)  # Nobody looked the name up yet.
        socket.create_connection(("may-chu.truong.example", port), 5).close()
        socket.create_connection((host, port), 5).close()
        refused(socket.create_connection, ("may-chu.truong.example", other_port), 5)
        refused(socket.getaddrinfo, "may-chu.truong.example.evil.example", port)
        """,
        skip_without_address=True,
    )


def test_a_lookup_that_hides_what_it_found_is_repeated() -> None:
    child(
        """
        import deepedu.base.egress as egress
        host = own_address()
        server, port = listening(host)
        egress._lookup = lambda name, _port: [(socket.AF_INET, 1, 6, "", (host, 0))]
        guard([Endpoint("nowhere.invalid", port)])
        try:
            socket.gethostbyname("nowhere.invalid")
        except socket.gaierror:
            pass
        socket.create_connection((host, port), 5).close()
        """,
        skip_without_address=True,
    )


def test_each_target_is_logged_once_at_warning() -> None:
    output = child(
        """
        logging.basicConfig(format="%(levelname)s %(message)s")
        guard([])
        for _ in range(3):
            for target in ("192.0.2.7", "192.0.2.8"):
                refused(socket.create_connection, (target, 80))
        refused(socket.getaddrinfo, "a\\nb.example", 80)
        """
    )
    lines = [line for line in output.splitlines() if line.startswith("WARNING")]
    assert len(lines) == 3
    assert sum("192.0.2.7:80" in line for line in lines) == 1
    assert any("a?b.example" in line for line in lines)


def test_guarding_twice_changes_nothing_and_cannot_widen() -> None:
    child(
        """
        from deepedu.base.errors import ConfigError
        guard([Endpoint("10.0.0.5", 80)])
        guard([Endpoint("10.0.0.5", 80)])
        try:
            guard([Endpoint("10.0.0.5", 80), Endpoint("192.0.2.7", 80)])
        except ConfigError:
            pass
        else:
            raise AssertionError
        refused(socket.create_connection, ("192.0.2.7", 80))
        """
    )


def test_a_hook_that_keeps_ours_out_is_noticed() -> None:
    child(
        """
        from deepedu.base.errors import ConfigError
        def veto(event, args):
            if event == "sys.addaudithook":
                raise RuntimeError("no more hooks")
        sys.addaudithook(veto)
        try:
            guard([])
        except ConfigError:
            sys.exit(0)
        sys.exit(1)
        """
    )


def test_a_forked_child_is_guarded_and_threads_are() -> None:
    child(
        """
        guard([])
        pid = os.fork()
        if pid == 0:
            refused(socket.create_connection, ("192.0.2.7", 80))
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        told = []
        thread = threading.Thread(target=lambda: told.append(refused(socket.create_connection, ("192.0.2.7", 80))))
        thread.start()
        thread.join()
        assert told
        """
    )


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://10.0.0.5:8399/v1", Endpoint("10.0.0.5", 8399)),
        ("https://api.example/v1", Endpoint("api.example", 443)),
        ("http://[::1]/", Endpoint("::1", 80)),
    ],
)
def test_endpoint_of_a_url(url: str, expected: Endpoint) -> None:
    assert Endpoint.of(url) == expected


@pytest.mark.parametrize("url", ["api.example", "http://", "http://h:port/", "ftp://h/", ""])
def test_a_url_without_a_server_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="expected a URL"):
        Endpoint.of(url)


def test_the_refusal_is_ours_and_a_failed_connection() -> None:
    error = EgressRefused("đã chặn")
    assert isinstance(error, DeepEduError)
    assert isinstance(error, ConnectionError)
    assert str(error) == "đã chặn"
    assert set(URL_SETTINGS) <= set(setting_names())

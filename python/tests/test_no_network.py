"""The jar has no code that opens ports or calls other hosts: messages go through Spark's own RPC."""

from __future__ import annotations

import re
import zipfile

from spark_dynamic_filters import jar_path

#: Packages whose classes open sockets or send requests, and classes that start processes which could.
_NETWORK = re.compile(
    rb"(?:java/net|javax/net|java/nio/channels|java/rmi|sun/net|com/sun/net|io/netty|io/grpc|org/apache/http"
    rb"|org/apache/hc|org/eclipse/jetty|org/sparkproject/(?:jetty|connect/grpc)|okhttp3)/[\w/$]+"
    rb"|java/lang/Process\w*|scala/sys/process/\w+"
)
#: What writes and reads addresses, and what a reader of files throws when its thread is interrupted.
_HARMLESS = {
    b"java/net/URI",
    b"java/net/URLEncoder",
    b"java/net/URLDecoder",
    b"java/nio/channels/ClosedByInterruptException",
}


def test_classes_name_no_class_of_the_network() -> None:
    with zipfile.ZipFile(jar_path()) as jar:
        classes = {name: jar.read(name) for name in jar.namelist() if name.endswith(".class")}
    assert len(classes) > 500
    # Names of classes are plain text in a class file.
    found = {(name, use) for name, code in classes.items() for use in _NETWORK.findall(code)}
    assert not sorted((name, use) for name, use in found if use not in _HARMLESS)

"""Ports for servers of tests."""

from __future__ import annotations

import socket

import pytest

from spark_dynamic_filters.testing import _ports


def test_a_port_is_not_one_that_systems_hand_out_by_themselves() -> None:
    assert all(20_000 <= _ports.free_port() < 32_768 for _ in range(200))


def test_a_port_that_is_taken_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    first = _ports.free_port()
    monkeypatch.setattr(_ports, "_FIRST", first)
    monkeypatch.setattr(_ports, "_END", first + 5)
    monkeypatch.setattr(_ports, "_ATTEMPTS", 5)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first))
        taken.listen()
        assert all(_ports.free_port() != first for _ in range(50))

# SPDX-License-Identifier: Apache-2.0
"""Servers that several files of tests use: one that responds, and what TLS needs."""

from __future__ import annotations

import ssl
from datetime import timedelta

import pytest

from ldapslam.agent._engine import Responder
from ldapslam.lab.certificates import Authority
from support.engine import start_responder
from support.fake_tls import server_context


@pytest.fixture
def responder() -> Responder:
    return start_responder()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def tls(authority: Authority) -> ssl.SSLContext:
    pair = authority.issue("server", timedelta(hours=1))
    return server_context(pair.certificate_file, pair.key_file)

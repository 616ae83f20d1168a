# SPDX-License-Identifier: Apache-2.0
"""The job type `auth`: an application that logs its users in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from ldapslam.jobs.fields.result_codes import NAMES, ResultCode
from ldapslam.jobs.fields.sections import Flag, Section, Text
from ldapslam.jobs.fields.texts import AttributeSelector
from ldapslam.jobs.types.base import JobType, SearchOptions, drop_none


class AuthOptions(SearchOptions):
    """Whom to find, and what to bind with."""

    attributes: list[AttributeSelector] = Field(default=["1.1"])
    """attributes to return; '1.1' is none"""
    password: Text = Field(min_length=1, examples=["password"])
    """the users' password, that of a test population; patterns allowed"""
    expect: list[ResultCode] | None = Field(
        default=None, examples=["[success, invalidCredentials]"]
    )
    """result codes of the bind that are no errors; without it, success"""
    unbind: Flag = False
    """end each login with an unbind and connect anew, so that every search is made as
    the stream's own identity; without it, a search is made as the user who was bound
    before"""


class Auth(JobType[AuthOptions]):
    """Find an entry, then bind as it with a password: SLAMD's and UnboundID's
    authentication rate, OpenDJ's authrate. Two operations are recorded, `search` and
    `bind`, so the time of a login is not mixed of both."""

    name: ClassVar[str] = "auth"
    Options: ClassVar[type[Section]] = AuthOptions

    def expand(self, options: AuthOptions, stream: Mapping[str, Any]) -> dict[str, Any]:
        bind = drop_none(
            {
                "bind": {"dn": "[dn]", "password": options.password},
                "expect": options.expect
                and [NAMES.get(code, code) for code in options.expect],
            }
        )
        steps: list[dict[str, Any]] = [
            {"search": options.search, "capture": "dn"},
            bind,
        ]
        if options.unbind:
            steps.append({"unbind": {}})
        return {"operations": [{"sequence": steps}]}

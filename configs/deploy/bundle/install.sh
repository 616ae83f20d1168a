#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Install ldapslam @VERSION@ out of this folder: no network, no compiler, no root.
#
#     ./install.sh [FOLDER]
#
# FOLDER gets a virtual environment; left out, it is /opt/ldapslam. One that is there is
# upgraded. PYTHON=/path/to/python@PYTHON@ names the Python.
set -eu

fail() { # what, remedy
    printf '%s\nhint: %s\n' "$1" "$2" >&2
    exit 1
}

folder=$(realpath -m -- "${1:-/opt/ldapslam}")
cd "$(dirname "$0")"
sha256sum --quiet -c SHA256SUMS ||
    fail "this bundle is not as it was made" "copy and unpack it once more"

python=${PYTHON:-python@PYTHON@}
found=$("$python" -c 'import os, sys
print("%d.%d" % sys.version_info[:2], os.uname().machine)' 2>&1) || :
[ "$found" = "@PYTHON@ @MACHINE@" ] ||
    fail "this bundle is for Python @PYTHON@ on @MACHINE@; $python says: $found" \
        "name one with PYTHON=/path/to/python@PYTHON@, or make a bundle with this one"
libc=$(getconf GNU_LIBC_VERSION 2>&1) || :
[ "$(printf '%s\n' "glibc @GLIBC@" "$libc" | sort -V | head -n 1)" = "glibc @GLIBC@" ] ||
    fail "this bundle needs glibc @GLIBC@ or later; this host has: $libc" \
        "make a bundle on a host as old as this one"

# a folder of something else would be mixed with it, and removed with it
if [ ! -e "$folder/pyvenv.cfg" ]; then
    for one in "$folder"/* "$folder"/.[!.]*; do
        [ ! -e "$one" ] || fail "$folder holds something that is not ldapslam's: $one" \
            "name a folder that is empty or not there: ./install.sh FOLDER"
    done
elif [ ! -x "$folder/bin/python@PYTHON@" ]; then
    # venv leaves the links of another Python in place, which the host may have no more
    [ -e "$folder/bin/ldapslam" ] ||
        fail "$folder is a virtual environment of another Python, without ldapslam" \
            "name a folder that is empty or not there: ./install.sh FOLDER"
    rm -rf -- "$folder"/bin/python* "$folder"/lib/python*
fi

# pip is one of the wheels: Debian's Python has none without python3-venv
"$python" -m venv --without-pip "$folder" ||
    fail "no virtual environment in $folder" \
        "name a folder that you may write: ./install.sh FOLDER"
"$folder/bin/python" "$(echo wheels/pip-*.whl)/pip" --isolated \
    --disable-pip-version-check install --quiet --no-index --no-cache-dir --no-deps \
    --force-reinstall wheels/*.whl
"$folder/bin/python" -c 'import ldap, ldapslam.agent._engine' ||
    fail "installed, but the engine cannot be loaded" \
        "the wheels that README.txt lists use this host's libldap: install its package"
echo "installed: $folder/bin/ldapslam" >&2

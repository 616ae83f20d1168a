#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Install ldapslam @VERSION@ out of this folder: no network, no compiler, no root.
#
#     ./install.sh [FOLDER]
#
# FOLDER gets a virtual environment; left out, it is /opt/ldapslam. One that is there is
# upgraded: the new one takes its place when it is good, else the old one stays.
# PYTHON=/path/to/python@PYTHON@ names the Python.
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

# a folder of something else would be mixed with it, and removed with it; others have
# links of the name `current`, too
used=$(readlink "$folder/current" || :)
case $used in .venv-a | .venv-b) ;; *) used= ;; esac
if [ -z "$used" ]; then
    for one in "$folder"/* "$folder"/.[!.]*; do
        [ ! -e "$one" ] && [ ! -L "$one" ] || [ "${one##*/}" = .venv-a ] ||
            fail "$folder holds something that is not ldapslam's: $one" \
                "name a folder that is empty or not there: ./install.sh FOLDER"
    done
fi

# The new one is made beside the one in use, which stays as it is unless all goes well.
new=.venv-a
[ "$used" != "$new" ] || new=.venv-b
# On any exit it is removed, unless it has become the one in use.
trap '[ "$(readlink "$folder/current")" = "$new" ] || rm -rf -- "$folder/$new"' EXIT
trap 'exit 1' HUP INT TERM
rm -rf -- "${folder:?}/$new"

# pip is one of the wheels: Debian's Python has none without python3-venv
"$python" -m venv --without-pip "$folder/$new" ||
    fail "no virtual environment in $folder" \
        "name a folder that you may write: ./install.sh FOLDER"
"$folder/$new/bin/python" "$(echo wheels/pip-*.whl)/pip" --isolated \
    --disable-pip-version-check install --quiet --no-index --no-cache-dir --no-deps \
    wheels/*.whl ||
    fail "the wheels cannot be installed" "is there room in $folder?"
"$folder/$new/bin/python" -c 'import ldap, ldapslam.agent._engine' ||
    fail "the engine cannot be loaded" \
        "the wheels that README.txt lists use this host's libldap: install its package"

# one rename switches
ln -s "$new" "$folder/$new/current"
mv -T -- "$folder/$new/current" "$folder/current"
for one in bin include lib lib64 share pyvenv.cfg; do
    [ -L "$folder/$one" ] || ln -s "current/$one" "$folder/$one"
done
[ -z "$used" ] || rm -rf -- "${folder:?}/$used"
echo "installed: $folder/bin/ldapslam" >&2

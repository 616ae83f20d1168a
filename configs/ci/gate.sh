#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A gate in a pipeline. Ends with the gate's exit code: 0 no regression, 1 regression,
# 3 cannot tell, 4 no baseline. Results of an earlier gate in OUT are removed first.
#
#   JOB        the job file
#   OLD, NEW   the sides, each one CHANGE of `ldapslam gate` or several, one a line
#   BASELINE   a baseline's file, instead of OLD
#   LAB        slapd or 389ds: throw-away servers; empty: those that the job names
#   TIME       the most that it may take (5m)
#   TOLERANCE  such as 5%, or one a line: p99=10%
#   METRIC     what is judged, one a line: p50 (throughput, p50, p99 and errors)
#   SET, VAR   fields and variables of the job, one a line: run.warm_up=1s, users=500
#   ALLOW_DIFFERENCES  yes: take a baseline that was made in another way
#   OUT        folder of the results (gate)
#   LDAPSLAM   the program (ldapslam)
set -eu

: "${JOB:?set JOB to the path of a job file}"
out=${OUT:-gate}

# a gate that was interrupted has this alone
mark=$out/.gate.sh
if [ -e "$mark" ] ||
    { [ -f "$out/results.sqlite" ] && grep -qs '"ldapslam-gate/' "$out/gate.json"; }; then
    for name in gate.html gate.pdf gate.txt gate.json gate.md gate.tap junit.xml badge.svg \
        results.sqlite results.sqlite-wal results.sqlite-shm logs; do
        rm -rf "${out:?}/$name" || exit 2
    done
    if [ -d "$out/spool" ]; then
        # what interrupted agents kept; ledgers are of entries that are still there
        if [ -n "$(find "$out/spool" -path '*/ledgers/*')" ]; then
            echo "gate.sh: an earlier gate left entries, by the ledgers in '$out/spool'" >&2
            echo "hint: ldapslam run --cleanup RUN, then remove the folder" >&2
            exit 2
        fi
        rm -rf "$out/spool" || exit 2
    fi
elif [ -n "$(ls -A "$out" 2>/dev/null)" ]; then
    echo "gate.sh: '$out' is not empty, and holds no results of a gate" >&2
    echo "hint: name another folder with OUT, or remove it" >&2
    exit 2
fi
# 1 would be a regression
mkdir -p -m 700 "$out" && touch "$mark" || exit 2

set -- gate "$JOB" --out "$out" --time "${TIME:-5m}"
[ -z "${LAB:-}" ] || set -- "$@" --lab "$LAB"
[ -z "${BASELINE:-}" ] || set -- "$@" --baseline "$BASELINE"
case ${ALLOW_DIFFERENCES:-} in
    yes | true) set -- "$@" --allow-differences ;;
    '' | no | false) ;;
    *)
        echo "gate.sh: ALLOW_DIFFERENCES: expected yes or no, got '$ALLOW_DIFFERENCES'" >&2
        exit 2
        ;;
esac
# one argument a line: paths may have spaces
while IFS= read -r line; do
    [ -z "$line" ] || set -- "$@" "${line%% *}" "${line#* }"
done <<EOF
$(printf '%s\n' "${OLD:-}" | sed -n 's/^[[:space:]]*\(..*\)$/--old \1/p')
$(printf '%s\n' "${NEW:-}" | sed -n 's/^[[:space:]]*\(..*\)$/--new \1/p')
$(printf '%s\n' "${METRIC:-}" | sed -n 's/^[[:space:]]*\(..*\)$/--metric \1/p')
$(printf '%s\n' "${TOLERANCE:-}" | sed -n 's/^[[:space:]]*\(..*\)$/--tolerance \1/p')
$(printf '%s\n' "${SET:-}" | sed -n 's/^[[:space:]]*\(..*\)$/--set \1/p')
$(printf '%s\n' "${VAR:-}" | sed -n 's/^[[:space:]]*\(..*\)$/--var \1/p')
EOF

code=0
"${LDAPSLAM:-ldapslam}" "$@" || code=$?
if [ -f "$out/gate.md" ] && [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
    cat "$out/gate.md" >> "$GITHUB_STEP_SUMMARY"
fi
exit "$code"

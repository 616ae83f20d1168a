#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A gate in a pipeline. Ends with the gate's exit code: 0 no regression, 1 regression,
# 3 cannot tell, 4 no baseline.
#
#   JOB        the job file
#   OLD, NEW   the sides, each one CHANGE of `ldapslam gate` or several, one a line
#   BASELINE   a baseline's file, instead of OLD
#   LAB        slapd or 389ds: throw-away servers; empty: those that the job names
#   TIME       the most that it may take (5m)
#   TOLERANCE  such as 5%, or one a line: p99=10%
#   OUT        folder of the results (gate)
#   LDAPSLAM   the program (ldapslam)
set -eu

: "${JOB:?set JOB to the path of a job file}"
out=${OUT:-gate}

set -- gate "$JOB" --out "$out" --time "${TIME:-5m}"
[ -z "${LAB:-}" ] || set -- "$@" --lab "$LAB"
[ -z "${BASELINE:-}" ] || set -- "$@" --baseline "$BASELINE"
# one argument a line: paths may have spaces
while IFS= read -r line; do
    [ -z "$line" ] || set -- "$@" "${line%% *}" "${line#* }"
done <<EOF
$(printf '%s\n' "${OLD:-}" | sed -n 's/^[[:space:]]*\(..*\)$/--old \1/p')
$(printf '%s\n' "${NEW:-}" | sed -n 's/^[[:space:]]*\(..*\)$/--new \1/p')
$(printf '%s\n' "${TOLERANCE:-}" | sed -n 's/^[[:space:]]*\(..*\)$/--tolerance \1/p')
EOF

code=0
"${LDAPSLAM:-ldapslam}" "$@" || code=$?
if [ -f "$out/gate.md" ] && [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
    cat "$out/gate.md" >> "$GITHUB_STEP_SUMMARY"
fi
exit "$code"

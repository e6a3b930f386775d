#!/bin/sh
# A worker made of a shell and curl. For each job of a queue it runs a command, which gets the job as
# JSON on its standard input and prints its result as JSON; if it fails, so does the try.
#
#   stoker serve --store sqlite:///jobs.db --http 127.0.0.1:8080
#   STOKER_URL=http://127.0.0.1:8080 ./curl_worker.sh thumbnails ./make-thumbnail
#
# ONCE=1 ends it when there is nothing to do.
set -u

queue=$1
shift
url=${STOKER_URL:-http://127.0.0.1:8080}
seconds=${VISIBILITY:-60}
wait=30
[ "${ONCE:-}" ] && wait=0

ask() { # path body
    curl --silent --show-error --fail-with-body --max-time 60 \
        ${STOKER_TOKEN:+--header "Authorization: Bearer $STOKER_TOKEN"} \
        --json "$2" "$url$1"
}

while :; do
    wish=$(printf '{"queues": ["%s"], "wait": %d, "visibility": %d}' "$queue" "$wait" "$seconds")
    job=$(ask /v1/claims "$wish") || { echo "$job" >&2; sleep 1; continue; }

    # A job begins with its id and ends with its lease, whatever stands between.
    id=$(printf '%s' "$job" | sed -n 's/^{"jobs":\[{"id":\([0-9]*\),.*/\1/p')
    lease=$(printf '%s' "$job" | sed -n 's/.*"lease":"\([0-9]*\)"}\]}$/\1/p')
    if [ -z "$id" ]; then
        [ "${ONCE:-}" ] && exit 0
        continue
    fi

    if result=$(printf '%s' "$job" | "$@"); then
        words=$(printf '{"lease": "%s", "result": %s}' "$lease" "${result:-null}")
        ask "/v1/jobs/$id/finish" "$words" >/dev/null && echo "job $id is done"
    else
        words=$(printf '{"lease": "%s", "error": "%s ended with %d"}' "$lease" "$1" "$?")
        ask "/v1/jobs/$id/fail" "$words" >/dev/null && echo "job $id failed"
    fi
done

#!/usr/bin/env bash
# Prints a config file at each change, as an Apollo client would get it.
#
# Usage: examples/follow_config.sh CONFIG_URL APP NAMESPACE FILE
#   for example http://127.0.0.1:8890 pay production application.properties
set -euo pipefail

config=$1 app=$2 namespace=$3 file=$4
id=-1 # none seen yet

while :; do
    # The node answers when it has something newer than the id, and with 304 after 55 s.
    seen="[{\"namespaceName\":\"$file\",\"notificationId\":$id}]"
    answer=$(curl -sS --max-time 90 -G "$config/notifications/v2" -d "appId=$app" -d "cluster=$namespace" \
        --data-urlencode "notifications=$seen") || { sleep 1 && continue; }
    [ -n "$answer" ] || continue
    id=$(grep -o '"notificationId":[0-9]*' <<<"$answer" | cut -d: -f2)
    curl -sS "$config/configfiles/raw/$app/$namespace/$file"
done

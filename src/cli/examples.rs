//! Two examples of each command, for its help and its manual page.

/// Examples by the names of a command and of its parents.
pub(super) const EXAMPLES: &[(&str, [&str; 2])] = &[
    ("dev", ["thuban dev", "thuban dev --demo --data-dir demo-data"]),
    (
        "serve",
        [
            "thuban serve --node-id 1 --initial-cluster 1=n1:8190,2=n2:8190,3=n3:8190 --cluster-secret-file secret",
            "thuban serve --node-id 4 --data-dir /var/lib/thuban --cluster-secret-file secret",
        ],
    ),
    (
        "restore",
        [
            "thuban restore --from monday.backup --data-dir data --node-id 1 --initial-cluster 1=n1:8190,2=n2:8190",
            "thuban restore --from monday.backup.reborn --data-dir data --node-id 2",
        ],
    ),
    (
        "recover",
        [
            "thuban recover --data-dir data --node-id 2",
            "thuban recover --data-dir data --node-id 2 --initial-cluster 2=n2:8190,4=n4:8190",
        ],
    ),
    (
        "reset-password",
        [
            "thuban reset-password --data-dir data",
            "thuban reset-password --data-dir data --name rita --password-file rita-password",
        ],
    ),
    ("inspect", ["thuban inspect data", "thuban inspect monday.backup -o json"]),
    (
        "certs",
        [
            "thuban certs --dir pki node1=n1.example.com,10.0.0.1 node2=n2.example.com",
            "thuban certs --dir pki --days 90 ann=ann",
        ],
    ),
    (
        "import apollo",
        [
            "thuban import apollo --config-service http://apollo:8080 --app-id shop --namespaces application",
            "thuban import apollo --file apollo-export.zip --env PRO --yes",
        ],
    ),
    (
        "import nacos",
        [
            "thuban import nacos --file nacos-export.zip",
            "thuban import nacos --file nacos-export.zip --to-namespace shop --yes",
        ],
    ),
    (
        "import polaris",
        [
            "thuban import polaris --file polaris-export.zip",
            "thuban import polaris --file polaris-export.zip --group pay --drafts --yes",
        ],
    ),
    ("import zip", ["thuban import zip --file configs.zip", "thuban import zip --file configs.zip --keep --yes"]),
    ("get", ["thuban get services -n shop", "thuban get configfile/pay/application.properties -o yaml"]),
    ("apply", ["thuban apply -f tree --dry-run", "thuban apply -f pay-limit.yaml --release"]),
    ("diff", ["thuban diff ratelimit/pay-limit", "thuban diff -f tree"]),
    ("delete", ["thuban delete service/pay -n shop", "thuban delete -f tree --yes"]),
    ("edit", ["thuban edit ratelimit/pay-limit", "thuban edit configfile/pay/application.properties --editor nano"]),
    (
        "draft reset",
        ["thuban draft reset ratelimit/pay-limit", "thuban draft reset configfile/pay/application.properties --to v3"],
    ),
    ("export", ["thuban export -n shop --dir copy", "thuban export ratelimits -A"]),
    ("watch", ["thuban watch instances --service pay", "thuban watch ratelimits -A --every 10"]),
    (
        "release",
        [
            "thuban release ratelimit/pay-limit",
            "thuban release configfile/pay/application.properties --gray zone=a --comment 'shorter timeout'",
        ],
    ),
    (
        "rollback",
        ["thuban rollback ratelimit/pay-limit", "thuban rollback configfile/pay/application.properties --to v3"],
    ),
    ("promote", ["thuban promote ratelimit/pay-limit", "thuban promote ratelimit/pay-limit --gray v4 --name v5"]),
    ("stop", ["thuban stop ratelimit/pay-limit", "thuban stop ratelimit/pay-limit --gray v4"]),
    ("rollout list", ["thuban rollout list", "thuban rollout list -n shop -o json"]),
    (
        "rollout status",
        ["thuban rollout status ratelimit/pay-limit", "thuban rollout status ratelimit/pay-limit --watch"],
    ),
    (
        "rollout pause",
        ["thuban rollout pause ratelimit/pay-limit", "thuban rollout pause rl/pay-limit --comment 'lunch'"],
    ),
    ("rollout resume", ["thuban rollout resume ratelimit/pay-limit", "thuban rollout resume rl/pay-limit --gray v4"]),
    (
        "rollout advance",
        ["thuban rollout advance ratelimit/pay-limit", "thuban rollout advance rl/pay-limit --gray v4"],
    ),
    (
        "rollout stop",
        ["thuban rollout stop ratelimit/pay-limit", "thuban rollout stop rl/pay-limit --comment 'errors'"],
    ),
    (
        "rollout signal",
        [
            "thuban rollout signal ratelimit/pay-limit",
            "thuban rollout signal ratelimit/pay-limit --failed --reason 'p99 above 200 ms'",
        ],
    ),
    (
        "wait",
        [
            "thuban wait ratelimit/pay-limit --timeout 90m",
            "thuban wait configfile/pay/application.properties --release v4 --clients 90%",
        ],
    ),
    (
        "withdraw",
        ["thuban withdraw ratelimit/pay-limit", "thuban withdraw configfile/pay/application.properties --to-previous"],
    ),
    ("history", ["thuban history ratelimit/pay-limit", "thuban history configfile/pay/application.properties -o json"]),
    (
        "explain",
        [
            "thuban explain ratelimit --service pay --method POST --path /charge",
            "thuban explain routing --service shop/pay --header x-beta=1 --client-label zone=a --draft",
        ],
    ),
    ("who", ["thuban who ratelimit/pay-limit", "thuban who --client 10.1.0.7"]),
    (
        "instance register",
        [
            "thuban instance register 10.0.0.7:8080 --service pay --label version=2",
            "thuban instance register 10.0.0.7:8080 --service pay --ttl 2 --heartbeat",
        ],
    ),
    (
        "instance deregister",
        [
            "thuban instance deregister 10.0.0.7:8080 --service pay",
            "thuban instance deregister [fd00::7]:8080 --service pay -n shop",
        ],
    ),
    ("instance list", ["thuban instance list --service pay", "thuban instance list -A -o wide"]),
    (
        "drain instance",
        [
            "thuban drain instance 10.0.0.7:8080 --service pay",
            "thuban drain instance 10.0.0.7:8080 --service pay -n shop --wait 60s",
        ],
    ),
    (
        "xds bootstrap grpc",
        [
            "thuban xds bootstrap grpc --namespace shop --service cart",
            "thuban xds bootstrap grpc --namespace shop --server n1:15010,n2:15010 --label version=2",
        ],
    ),
    (
        "xds bootstrap envoy",
        [
            "thuban xds bootstrap envoy --namespace shop --service cart",
            "thuban xds bootstrap envoy --namespace shop --server n1:15010 --locality eu/eu-1/a --admin-port 9902",
        ],
    ),
    ("xds clients", ["thuban xds clients", "thuban xds clients --limit 10 -o json"]),
    ("xds dump", ["thuban xds dump cart~host1", "thuban xds dump cart~host1 -o table"]),
    ("requests", ["thuban requests", "thuban requests --id f8e4a1"]),
    ("approve", ["thuban approve f8e4a1", "thuban approve f8e4a1 --parts 2 -m 'seen'"]),
    ("refuse", ["thuban refuse f8e4a1", "thuban refuse f8e4a1 -m 'wait for the tests'"]),
    ("policy list", ["thuban policy list", "thuban policy list -o json"]),
    (
        "policy set",
        [
            "thuban policy set production --for-namespace shop --approvals 1",
            "thuban policy set limits --for-namespace shop --kind ratelimit --gate publish --gate promote",
        ],
    ),
    ("policy delete", ["thuban policy delete production", "thuban policy delete limits --context prod"]),
    ("contract list", ["thuban contract list", "thuban contract list -o json"]),
    (
        "contract create",
        [
            "thuban contract create timeouts --for-namespace shop --schema timeouts.json --mode refuse",
            "thuban contract create steady --kind ratelimit --rule 'size(spec.rules) < 10'",
        ],
    ),
    (
        "contract update",
        ["thuban contract update timeouts --mode warn", "thuban contract update timeouts --schema timeouts.json"],
    ),
    ("contract delete", ["thuban contract delete timeouts", "thuban contract delete steady --context prod"]),
    (
        "contract test",
        ["thuban contract test pay/application.yaml -n shop", "thuban contract test --group pay --format json limits"],
    ),
    (
        "audit",
        ["thuban audit --namespace shop --name pay-limit", "thuban audit --user rita --since '2026-11-01 00:00:00'"],
    ),
    ("key list", ["thuban key list", "thuban key list -o json"]),
    ("key create", ["thuban key create pay first", "thuban key create pay second --for-namespace shop --mode observe"]),
    ("key set", ["thuban key set pay first --mode enforce", "thuban key set pay first --secret-file new-secret"]),
    ("key delete", ["thuban key delete pay first", "thuban key delete pay second --context prod"]),
    ("context list", ["thuban context list", "thuban context list --contexts-file contexts.json"]),
    ("context use", ["thuban context use prod", "thuban context use desk"]),
    (
        "context set",
        [
            "thuban context set desk --server http://127.0.0.1:8090 --namespace shop",
            "thuban context set prod --server https://n1:8090,https://n2:8090 --ca-file ca.pem",
        ],
    ),
    ("context delete", ["thuban context delete desk", "thuban context delete desk --contexts-file contexts.json"]),
    ("completion", ["thuban completion bash", "thuban completion zsh"]),
    ("man", ["thuban man", "thuban man --dir /usr/local/share/man/man1"]),
    ("whoami", ["thuban whoami", "thuban whoami -o json"]),
    ("user list", ["thuban user list", "thuban user list -o json"]),
    (
        "user add",
        [
            "thuban user add rita --grant releaser,shop --grant editor,shop",
            "thuban user add abe --password-file abe-password --grant approver,shop --comment 'on call'",
        ],
    ),
    (
        "user set",
        ["thuban user set rita --disable", "thuban user set --provider corp --sub 00u1x7 --grant reader,shop"],
    ),
    ("user delete", ["thuban user delete rita", "thuban user delete rita --context prod"]),
    ("user passwd", ["thuban user passwd", "thuban user passwd rita --password-file rita-password"]),
    ("token list", ["thuban token list", "thuban token list -o json"]),
    (
        "token create",
        [
            "thuban token create ci --grant releaser,shop --grant editor,shop --expires-in-s 2592000",
            "thuban token create pay --grant client,shop,pay --network 10.0.0.0/8",
        ],
    ),
    ("token update", ["thuban token update ci --expires-in-s 2592000", "thuban token update ci --disable"]),
    ("token rotate", ["thuban token rotate ci", "thuban token rotate ci --overlap 3600"]),
    ("token delete", ["thuban token delete ci", "thuban token delete pay --context prod"]),
    ("role list", ["thuban role list", "thuban role list -o json"]),
    (
        "login",
        [
            "thuban login --sso corp",
            "thuban login --endpoint http://127.0.0.1:8090 --name rita --password-file rita-password",
        ],
    ),
    ("logout", ["thuban logout", "thuban logout --context prod"]),
    ("sso list", ["thuban sso list", "thuban sso list --endpoint https://n1:8090 -o json"]),
    ("sso test", ["thuban sso test corp", "thuban sso test corp --token pipeline-token"]),
    ("identity list", ["thuban identity list", "thuban identity list -o json"]),
    ("identity delete", ["thuban identity delete corp 00u1x7", "thuban identity delete corp 00u1x7 --tokens"]),
    ("cluster status", ["thuban cluster status", "thuban cluster status --endpoint http://n1:8090,http://n2:8090"]),
    ("cluster add", ["thuban cluster add --id 4 --peer n4:8190", "thuban cluster add --id 2 --peer 10.0.0.9:8190"]),
    ("cluster promote", ["thuban cluster promote --id 4", "thuban cluster promote --id 5"]),
    ("cluster remove", ["thuban cluster remove --id 3", "thuban cluster remove --id 3 --context prod"]),
    ("cluster transfer", ["thuban cluster transfer --to 2", "thuban cluster transfer --to 1 --context prod"]),
    ("cluster snapshot", ["thuban cluster snapshot", "thuban cluster snapshot --endpoint http://n2:8090"]),
    ("cluster time", ["thuban cluster time", "thuban cluster time --context prod"]),
    ("cluster confirm-time", ["thuban cluster confirm-time --to present", "thuban cluster confirm-time --to clocks"]),
    ("cluster reseal", ["thuban cluster reseal", "thuban cluster reseal --context prod"]),
    ("cluster settings", ["thuban cluster settings", "thuban cluster settings releases_kept=50"]),
    ("backup", ["thuban backup --out monday.backup", "thuban backup --out monday.backup --endpoint http://n2:8090"]),
    ("health", ["thuban health", "thuban health --endpoint https://127.0.0.1:8090 --ca-file ca.pem"]),
];

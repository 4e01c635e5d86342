//! The phrases of sentences, in English and Chinese side by side. A phrase is a function of its placeholders: a
//! translation without one of them does not compile.

use std::fmt::Display;

use super::language::Language;

macro_rules! phrases {
    ($( $name:ident($($hole:ident),*): $english:literal, $chinese:literal; )+) => {
        impl Language {
            $(
                pub(super) fn $name(self, $($hole: impl Display),*) -> String {
                    match self {
                        Language::English => format!($english, $($hole = $hole),*),
                        Language::Chinese => format!($chinese, $($hole = $hole),*),
                    }
                }
            )+
        }

        /// Name, placeholders, English, Chinese.
        #[cfg(test)]
        pub(super) const PHRASES: &[(&str, &[&str], &str, &str)] =
            &[ $( (stringify!($name), &[$(stringify!($hole)),*], $english, $chinese), )+ ];
    };
}

phrases! {
    switched_off():
        "This rule is switched off: it does nothing now. Switched on, it does what follows.",
        "此规则已停用，目前不起作用。启用后按以下内容执行。";
    part_off(sentence): "(Switched off) {sentence}", "（已停用）{sentence}";
    nothing(): "The rule has no sub-rules: it does nothing.", "规则没有子规则：不起作用。";
    for_nothing(): "The rule names no service: it is for no calls.", "规则没有指定服务：不作用于任何调用。";
    and_more(count): "And {count} more.", "另有 {count} 条。";
    more_items(count): "{count} more", "另外 {count} 项";
    has_value(asked, value): "{asked}: it is {value}", "{asked}：实际为 {value}";
    has_none(asked): "{asked}: there is none", "{asked}：没有此值";
    has_number(asked, number): "{asked}: number {number} of 100", "{asked}：编号为 {number}（共 100）";
    beside(first, second): "{first} {second}", "{first}{second}";
    then(first, second): "{first}; {second}", "{first}；{second}";
    stop(clause): "{clause}.", "{clause}。";
    numbered(number, sentence): "{number}. {sentence}", "{number}. {sentence}";
    comma(first, second): "{first}, {second}", "{first}、{second}";
    and(first, second): "{first} and {second}", "{first} 和 {second}";
    both(first, second): "{first} and {second}", "{first} 且 {second}";
    either(first, second): "{first} or {second}", "{first} 或 {second}";
    percent(number): "{number} %", "{number}%";
    every_service(): "every service", "所有服务";
    every_service_of(namespace): "every service of {namespace}", "{namespace} 的所有服务";
    of_every_namespace(service): "{service} of every namespace", "所有命名空间的 {service}";
    calls_to(callee): "Calls to {callee}", "对 {callee} 的调用";
    calls_from_to(caller, callee): "Calls from {caller} to {callee}", "{caller} 对 {callee} 的调用";
    calls_with(calls, conditions): "{calls} with {conditions}", "{calls}中满足{conditions} 的";
    code(code): "the code {code}", "返回码 {code}";
    header(name, value): "the header {name}: {value}", "响应头 {name}: {value}";
    body(body): "the body {body}", "正文 {body}";
    refused_gets(answer): "who is refused gets {answer}", "被拒绝的调用方得到{answer}";

    part_custom(key): "label {key}", "标签 {key}";
    part_method(): "method", "方法";
    part_header(key): "header {key}", "请求头 {key}";
    part_query(key): "query parameter {key}", "查询参数 {key}";
    part_address(): "caller address", "主调地址";
    part_path(): "path", "路径";
    part_cookie(key): "cookie {key}", "Cookie {key}";
    part_metadata(key): "caller label {key}", "主调元数据 {key}";
    part_service(): "calling service", "主调服务";
    part_service_of(namespace): "calling service of namespace {namespace}", "命名空间 {namespace} 的主调服务";
    part_protocol(): "protocol", "协议";
    part_interface(): "interface", "接口";
    one_interface(list): "one of the interfaces [{list}]", "接口 [{list}] 之一";
    next_interface(first, second): "{first}; {second}", "{first}；{second}";

    is(part, value): "{part} = {value}", "{part} = {value}";
    any_value(part): "{part} of any value", "{part} 为任意值";
    parameter(part, name): "{part} of any value (parameter {name})", "{part} 为任意值（参数 {name}）";
    any_but(part, value): "{part} of any value but {value}", "{part} 有值且不等于 {value}";
    one_of(part, values): "{part} that is one of ({values})", "{part} 为（{values}）之一";
    none_of(part, values): "{part} of any value but ({values})", "{part} 有值且不为（{values}）之一";
    found(part, expression):
        "{part} in which the expression {expression} is found",
        "{part} 中能找到正则表达式 {expression}";
    within(part, low, high): "{part} that is a whole number from {low} to {high}", "{part} 为 {low} 到 {high} 的整数";
    never(part, value): "{part} within {value}, which no value is", "{part} 在 {value} 之内（没有值满足）";

    // Routing.
    first_wins():
        "The first sub-rule that matches a call, and has a destination that takes calls, decides.",
        "按顺序，由第一条匹配且有可用目标的子规则决定。";
    rest(): "Calls that no sub-rule takes are left to the rules after this one.", "没有子规则处理的调用由后面的规则决定。";
    priority_custom(priority):
        "Its priority is {priority}: custom routes with a lower number are tried before it, and those with the same \
         number by their ids.",
        "优先级为 {priority}：数字更小的自定义路由先匹配，数字相同时按 ID 排序。";
    priority_policy(priority):
        "Its priority is {priority}: of the rules of this policy for a service, the one with the lowest number decides \
         alone.",
        "优先级为 {priority}：对同一服务，此策略的规则中只有数字最小的生效。";
    go_to(calls, groups): "{calls} go to {groups}.", "{calls}，转到 {groups}。";
    go_to_instances(calls, which): "{calls} go to {which}.", "{calls}，转到{which}。";
    share_goes_to(calls, percent, groups):
        "{calls}: {percent} of them go to {groups}, the others on to the next sub-rule or rule.",
        "{calls}：其中 {percent} 转到 {groups}，其余继续匹配后面的子规则或规则。";
    takes_nothing(calls):
        "{calls}: no destination takes them, so they go on to the next sub-rule or rule.",
        "{calls}：没有可用的目标，继续匹配后面的子规则或规则。";
    no_destination():
        "It has no destination with a service, so it takes no calls.",
        "没有指明服务的目标，因此不处理任何调用。";
    otherwise(sentence): "Otherwise: {sentence}", "其余情况：{sentence}";
    or_while_none(first, next): "{first}, or {next} while none of these is available", "{first}，这些都不可用时转到 {next}";
    group_share(group, percent): "{group} ({percent})", "{group}（{percent}）";
    any_instance(): "any instance", "任意实例";
    any_instance_of(service): "any instance of {service}", "{service} 的任意实例";
    labelled_of(labels, service): "{labels} of {service}", "{service} 的 {labels}";
    label(key, value): "{key}={value}", "{key}={value}";
    takes_over(key, name): "{key} = the call's value of {name}", "{key} = 调用中 {name} 的值";
    bracketed(labels): "[{labels}]", "[{labels}]";
    is_isolated(group): "no calls go to {group}: it is isolated", "不转到 {group}：已隔离";
    has_no_value(group):
        "no calls go to {group}: no condition carries the value that it takes over",
        "不转到 {group}：没有条件提供它引用的值";
    has_no_weight(group): "no calls go to {group}: its weight is 0", "不转到 {group}：权重为 0";
    passed_over():
        "A destination is passed over where a call lacks the value that it takes over.",
        "调用没有目标所引用的值时，跳过该目标。";
    campus(): "campus", "园区";
    zone(): "zone", "可用区";
    region(): "region", "地域";
    near(level): "instances of the caller's {level}", "主调所在{level}的实例";
    near_next(nearer, level):
        "{nearer}, or those of its {level} while none of these is available",
        "{nearer}，都不可用时转到其所在{level}的实例";
    near_all(nearer): "{nearer}, or all others while none of these is available", "{nearer}，都不可用时转到其他所有实例";
    near_strict(nearer): "{nearer}, and no others", "{nearer}，绝不转到其他实例";
    near_alike(): "all instances alike, near or far", "不分远近的所有实例";
    by_any_label(): "all instances: no label is asked for", "所有实例：没有要求标签";
    by_labels(labels): "instances with {labels}, and no others", "带有 {labels} 的实例，绝不转到其他实例";
    by_labels_or(labels, others):
        "instances with {labels}, or {others} while none of these is available",
        "带有 {labels} 的实例，都不可用时转到{others}";
    all_others(): "all others", "其他所有实例";
    others_without(): "those that have none of these keys", "不含这些键的实例";
    others_with(others, labels): "{others} with {labels}", "{others}中带有 {labels} 的实例";

    // Rate limits.
    limits_all():
        "Every quota that matches a call counts it, of this rule and of others whatever their priorities, and each can \
         refuse it.",
        "每个匹配的限额都会计数，包括其他规则的，与优先级无关；任何一个都可能拒绝调用。";
    at_most(calls, amounts): "{calls}: at most {amounts}.", "{calls}：最多{amounts}。";
    limits_nothing(calls): "{calls}: no amount is given, so nothing is limited.", "{calls}：没有给出限额，不限制。";
    amount(count, period): "{count} per {period}", "每 {period} {count} 次";
    amount_alone(count): "{count} in no period", "{count} 次（没有周期）";
    at_a_time(count): "{count} at a time", "同时 {count} 个";
    rising(amount, start): "{amount} (rising from {start})", "{amount}（从 {start} 开始上升）";
    falling(amount, end): "{amount} (lowered to {end} at least)", "{amount}（最低降到 {end}）";
    precisely(amount, precision): "{amount} (with the precision {precision})", "{amount}（统计精度 {precision}）";
    of_system():
        "the resource is SYSTEM: what these amounts are of, a plug-in of the clients decides",
        "资源为 SYSTEM：限额的含义由客户端插件决定";
    refused(): "what is more is refused", "超出的调用被拒绝";
    queued(seconds): "what is more waits for up to {seconds} s, and is refused then", "超出的调用最多排队 {seconds} 秒，之后被拒绝";
    left_to(action): "what is more is left to the action {action}", "超出的调用由动作 {action} 处理";
    left_to_queue(action, seconds):
        "what is more is left to the action {action}, which lets it wait for up to {seconds} s",
        "超出的调用由动作 {action} 处理，最多排队 {seconds} 秒";
    counted_together(): "All of these calls share one counter.", "这些调用共用一个计数器。";
    counted_apart(parts): "Each value of {parts} has a counter of its own.", "{parts} 的每个值各有一个计数器。";
    counts_alone(): "Each instance counts for itself.", "每个实例各自计数。";
    counts_total(): "The amounts are for all instances together.", "限额由所有实例共用。";
    counts_shared():
        "The amounts are for all instances together, each of which has an equal share.",
        "限额由所有实例均分。";
    counts_otherwise(kind): "The rule's type is {kind}: clients decide where they count.", "规则类型为 {kind}：计数位置由客户端决定。";
    asks_server(server): "The server that counts is {server}.", "计数的服务器为 {server}。";
    reports_each(period): "Clients report their usage every {period}.", "客户端每 {period} 上报一次用量。";
    reports_at(percent):
        "Clients report their usage at once when {percent} of a quota is used.",
        "用量达到限额的 {percent} 时客户端立即上报。";
    alone_without_server():
        "While the server that counts cannot be reached, each client counts for itself.",
        "无法访问计数的服务器时，每个客户端各自计数。";
    open_without_server():
        "While the server that counts cannot be reached, all calls pass.",
        "无法访问计数的服务器时，放行所有调用。";

    // Fault detection.
    probed(way, port, every): "probed {way} at {port}, {every}", "{every}，{way}探测{port}";
    unprobed(): "not probed: the protocol is none that clients know", "协议未知，不会被探测";
    instances(service, probed): "instances of {service} are {probed}", "{service} 的实例：{probed}";
    by_http(request): "by the HTTP request {request}", "以 HTTP 请求 {request} ";
    by_tcp(): "by a TCP connection", "以 TCP 连接";
    by_udp(): "by UDP", "以 UDP ";
    sending(way, text): "{way} that sends {text}", "{way}发送 {text} ";
    with_headers(request, headers): "{request} with {headers}", "{request}（带{headers}）";
    sent_header(name, value): "the header {name}: {value}", "请求头 {name}: {value}";
    own_port(): "the port of each instance", "各实例自己的端口";
    port(port): "port {port}", "端口 {port}";
    every(seconds): "every {seconds} s", "每 {seconds} 秒";
    every_default(): "as often as clients choose (proxies: every 5 s)", "间隔由客户端决定（代理为每 5 秒）";
    fails_after(seconds): "one without a good answer within {seconds} s has failed", "{seconds} 秒内没有正确应答即为失败";
    fails_by_default():
        "the time after which one has failed, clients choose (proxies: 1 s)",
        "多久没有应答算失败由客户端决定（代理为 1 秒）";
    good_status(): "proxies take the statuses 200 to 399 for good", "代理认为状态码 200 到 399 为正确";
    good_answers(answers): "good answers are ({answers})", "正确的应答为（{answers}）";
    probe_interface(conditions):
        "The probes are for the interface with {conditions}; proxies probe an instance as a whole.",
        "探测针对满足 {conditions} 的接口；代理只探测整个实例。";
    several_probes():
        "Each of these probes watches the instances; of all rules for a service, proxies send the first probe alone.",
        "每种探测都会进行；对一个服务的所有规则，代理只进行第一种。";

    // Circuit breakers.
    no_level(): "the rule says on no level what is cut off: clients pass it over", "规则没有指定熔断级别：客户端会忽略它";
    each_block(): "Each of these parts that matches a call counts its errors.", "每个匹配的部分各自统计错误。";
    of_calls(calls, clause): "{calls}: {clause}", "{calls}：{clause}";
    error_is(conditions): "an error is one with {conditions}", "满足 {conditions} 的为错误";
    error_by_default(): "an error is what clients themselves take for one", "哪些是错误由客户端判断";
    part_code(): "return code", "返回码";
    part_delay(): "delay in ms", "毫秒耗时";
    slower(ms): "a delay of {ms} ms or more", "耗时不低于 {ms} 毫秒";
    unknown_error(): "a condition of no known kind", "未知类型的条件";
    in_a_row(count): "{count} errors in a row", "连续 {count} 次错误";
    rate(percent, calls, seconds):
        "{percent} errors or more among {calls} calls or more within {seconds} s",
        "{seconds} 秒内至少 {calls} 次调用且错误率不低于 {percent}";
    rate_by_default(percent, calls):
        "{percent} errors or more among {calls} calls or more within the time that clients choose (proxies: 10 s)",
        "在客户端选定的时间内（代理为 10 秒）至少 {calls} 次调用且错误率不低于 {percent}";
    no_number(kind): "a number for {kind} that is not given", "未给出数值的 {kind}";
    unknown_trigger(): "a trigger of no known kind", "未知类型的触发条件";
    opens_service(triggers): "after {triggers} all calls to the service are refused", "{triggers} 后拒绝对该服务的所有调用";
    opens_interface(triggers): "after {triggers} all calls of the interface are refused", "{triggers} 后拒绝对该接口的所有调用";
    opens_group(triggers): "after {triggers} of a group of instances the group is left out", "一组实例{triggers} 后不再使用该组";
    opens_instance(triggers): "after {triggers} of an instance the instance is left out", "一个实例{triggers} 后不再使用该实例";
    never_opens(): "no trigger is given, so nothing is ever cut off", "没有触发条件，因此不会熔断";
    seconds(count): "{count} s", "{count} 秒";
    sleep_by_default(): "a time that clients choose (proxies: 30 s)", "客户端选定的时间（代理为 30 秒）";
    recovers(time): "after {time} calls are let through again", "{time}后恢复调用";
    recovers_by(time, successes):
        "after {time} a few calls are let through, and after {successes} successes in a row all are; proxies let all \
         through at once",
        "{time}后放行少量调用，连续成功 {successes} 次后全部恢复；代理会立即全部恢复";
    ejects(percent): "at most {percent} of the instances are left out at a time", "同时最多摘除 {percent} 的实例";
    ejects_by_default():
        "how many of the instances are left out at a time at most, clients choose (those of xDS: a tenth)",
        "同时最多摘除多少实例由客户端决定（xDS 客户端为十分之一）";
    probes_too(): "clients probe by the fault detection rules of the service too", "客户端还按该服务的故障检测规则进行探测";
    refused_by_default(): "who is refused gets a fallback that its client chooses", "被拒绝的调用方得到客户端选定的降级应答";
    watches_alone(priority):
        "Its priority is {priority}: of the rules of its level that match a call, the one with the lowest number \
         watches it alone.",
        "优先级为 {priority}：同一级别中匹配调用的规则只有数字最小的生效。";

    // The effect on one request.
    effect(calls, what, source): "{calls} → {what} ({source})", "{calls} → {what}（{source}）";
    leads_to(calls, what): "{calls} → {what}", "{calls} → {what}";
    every_call(): "every call", "所有调用";
    every_instance_of(service): "every instance of {service}", "{service} 的所有实例";
    from(caller): "from {caller}", "来自 {caller}";
    share_of_clients(percent, by): "{percent} of the clients by {by}", "按 {by} 划分的 {percent} 客户端";
    of_release(rule, version): "{rule} v{version}", "{rule} v{version}";
    sub_rule(number): "sub-rule {number}", "第 {number} 条子规则";
    canary(): "canary", "灰度";
    live(): "live", "全量";
    draft(): "draft", "草稿";
    limit(amounts): "limit {amounts}", "限制为{amounts}";
    limit_each(amounts): "limit {amounts} in each instance", "每个实例限制为{amounts}";
    limit_parts(amounts): "limit {amounts}, an equal part of it in each instance", "限制为{amounts}，由各实例均分";
    for_all_callers(limit): "{limit}, shared by all callers", "{limit}，所有调用方共用";
    for_each_value(limit, parts): "{limit}, for each value of {parts}", "{limit}，按 {parts} 的每个值分别计数";
    others(percent): "the other {percent} of these calls", "其余 {percent} 的调用";
    left_to_none(): "no custom route takes them", "没有自定义路由处理";
    none_applies(reasons): "no rule of this family applies: {reasons}", "没有此类规则起作用：{reasons}";
    names_none(service): "none is for {service}", "没有针对 {service} 的规则";
    is_off(rule): "{rule} is switched off", "{rule} 已停用";
    is_for(rule, calls): "{rule} is for calls with {calls}", "{rule} 只针对满足 {calls} 的调用";
    is_for_caller(rule, caller): "{rule} is for calls from {caller}", "{rule} 只针对 {caller} 的调用";
    is_for_others(rule): "{rule} is for other calls", "{rule} 针对其他调用";
    is_on_no_level(rule): "{rule} says on no level what is cut off", "{rule} 没有指定熔断级别";
    is_empty(rule): "{rule} matches, but has nothing to do", "{rule} 匹配，但没有可执行的内容";
    is_behind(rule): "{rule} matches, but a rule before it decides", "{rule} 匹配，但由前面的规则决定";
    has_no_parts(rule): "{rule} has no sub-rules", "{rule} 没有子规则";
    is_canary_for(rule, clients): "{rule} is a canary for {clients}", "{rule} 是针对 {clients} 的灰度";

    // The clients that enforce a rule.
    client_extent(clients, extent): "{clients} {extent}", "{clients}：{extent}";
    with_reason(extent, reason): "{extent} ({reason})", "{extent}（{reason}）";
    yes(): "yes", "是";
    partly(): "partly", "部分";
    no(): "no", "否";
    sidecar(): "Envoy sidecar", "Envoy sidecar";
    gateway(): "Envoy gateway", "Envoy gateway";
    sidecar_and_gateway(): "Envoy sidecar and gateway", "Envoy sidecar 和 gateway";

    // The situation of a request for approval.
    approved_of(given, needed): "approved {given} of {needed}", "已批准 {given}/{needed}";
    nothing_yet(): "nothing is changed yet", "尚未生效";
    lacks(count): "approvals missing: {count}", "还缺 {count} 个批准";
    lacks_rights(policies): "none of those who approved may approve for all of {policies}", "批准者中没有人能同时满足 {policies}";
    lacks_right(): "whoever approved it may not any more", "批准者已不再有权限";
    asked_by(clause, policies): "{clause} ({policies} asks for them)", "{clause}（由 {policies} 要求）";
    lacks_other(act): "{act}, which is decided with it, is not approved yet", "一并决定的 {act} 尚未批准";
    lacks_parts(): "acts that are decided with it are not there any more", "一并决定的操作已不存在";
    frozen_until(policies, end):
        "it waits for the freeze of {policies}, which ends at {end}",
        "等待 {policies} 的冻结于 {end} 结束";
    frozen(policies): "it waits for the freeze of {policies}, whose end is not known", "等待 {policies} 的冻结结束，结束时间未知";
    to_run_then(): "after that somebody has to carry it out", "之后需要有人执行";
    on_hold(): "it is on hold until somebody carries it out", "保留到有人执行";
    to_run(): "somebody has to carry it out", "需要有人执行";
    carried_out(): "carried out", "已执行";
    planned(time): "planned for {time}", "计划于 {time}";
    was_refused(user): "refused by {user}", "被 {user} 拒绝";
    has_failed(): "failed, nothing was changed", "失败，没有变化";
    was_withdrawn(): "withdrawn, nothing was changed", "已撤回，没有变化";
    has_expired(): "expired, nothing was changed", "已过期，没有变化";
    is_stale(): "out of date, nothing was changed", "已过时，没有变化";
    because(clause, reason): "{clause}: {reason}", "{clause}：{reason}";
}

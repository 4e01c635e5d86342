//! Texts of the form of a rule. Slots are in braces.

texts! {
    FormTexts {
        head: "Rule {name} in namespace {namespace}, {enable}", "规则 {name}，命名空间 {namespace}，{enable}";
        is_enabled: "enabled", "启用";
        is_off: "switched off", "停用";
        calls_to: "Calls to {service}", "对 {service} 的调用";
        calls_between: "Calls to {service} from {caller}", "从 {caller} 对 {service} 的调用";
        every_call: "every call", "所有调用";
        when: "when", "当";
        and: "and", "且";
        or: "or", "或";
        when_mode: "when {mode} of these are met:", "满足以下 {mode} 条件时：";
        condition: "condition", "条件";
        is_present: "is present", "存在";
        a_limit: "limit", "限流";
        limit: "limit {resource}", "限制 {resource}";
        per: "to {most} in {period}", "为每 {period} 最多 {most}";
        at_once: "to {most}", "为最多 {most}";
        amount: "amount", "数量";
        route_by: "Route {policy}", "{policy} 路由";
        a_route: "route", "路由";
        take: "take {percent} % of them and", "取其中 {percent} %，";
        send: "send them, with weight {weight}, to instances", "以权重 {weight} 转到实例";
        destination: "destination", "目标";
        with_label: "with label {key} {is} {value}", "标签 {key} {is} {value}";
        label: "label", "标签";
        nearest: "go to instances of the same {level}, and to those of the same {most} if there is none",
            "转到同一 {level} 的实例，没有时扩大到同一 {most}";
        cut_off: "If it fails too often, cut off {level}", "失败过多时，熔断 {level}";
        a_block: "set of errors", "错误组";
        an_error: "an error is a call whose {input} {is} {value}", "错误指 {input} {is} {value} 的调用";
        error: "error", "错误";
        open_at_count: "open after {kind}: {count}", "触发条件：{kind} {count} 次";
        open_at_rate: "open at {kind}: {percent} % of at least {calls} calls in {seconds} s",
            "触发条件：{kind} {percent} %，在 {seconds} 秒内至少 {calls} 次调用";
        threshold: "threshold", "阈值";
        try_again: "Try again after {window} s, and close after {good} good calls.",
            "{window} 秒后重试，{good} 次成功后恢复。";
        at_most_cut: "Cut off at most {most} % of the instances.", "最多熔断 {most} % 的实例。";
        probe: "Probe {service}", "探测 {service}";
        a_probe: "probe", "探测";
        probe_every:
            "every {interval} s by {protocol} at port {port} (0: its own); \
             failed after {timeout} s without an answer",
            "每 {interval} 秒以 {protocol} 探测端口 {port}（0 为实例端口），{timeout} 秒无响应视为失败";
        probe_http: "with {method} {url}", "请求 {method} {url}";
        advanced: "Advanced", "高级";
        preview: "In words", "文字预览";
        show_preview: "Show in words", "预览";
        draft_is_incomplete: "Not complete yet:", "尚未填写完整：";
        instances: "instances", "个实例";
    }
}

//! Names of the fields and words of rules, in both languages.

use crate::console::texts::{Language, Texts};

/// Fields by their names in the API.
const FIELDS: [(&str, &str, &str); 88] = [
    ("action", "Plug-in", "插件"),
    ("amountPercent", "Report at use of (%)", "用量上报阈值 (%)"),
    ("amount_mode", "The amount is", "数量方式"),
    ("amounts", "Amounts", "数量"),
    ("api", "Interface", "接口"),
    ("apis", "Interfaces", "接口"),
    ("arguments", "Conditions", "条件"),
    ("block_configs", "Sets of errors", "错误组"),
    ("body", "Body", "正文"),
    ("callee", "Called service", "被调服务"),
    ("caller", "Calling service", "主调服务"),
    ("cluster", "Limit server", "限流服务器"),
    ("code", "Code", "状态码"),
    ("concurrency_amount", "Concurrent requests", "并发数"),
    ("condition", "Condition", "条件"),
    ("consecutive_success", "Good calls", "成功次数"),
    ("custom_response", "Answer to refused requests", "拒绝时的响应"),
    ("description", "Description", "描述"),
    ("destination", "Called service", "被调服务"),
    ("destinations", "Destinations", "目标"),
    ("disable", "Switched off", "停用"),
    ("enable", "Enabled", "启用"),
    ("error_conditions", "Errors", "错误"),
    ("error_count", "Errors in a row", "连续错误数"),
    ("error_percent", "Errors (%)", "错误率 (%)"),
    ("failover", "If none is left", "无可用时"),
    ("failover_range", "Then use", "后备范围"),
    ("fallback_config", "Fallback", "降级"),
    ("fault_detect_config", "Fault detection", "主动探测"),
    ("headers", "Headers", "请求头"),
    ("http_config", "HTTP probe", "HTTP 探测"),
    ("input_type", "Property", "属性"),
    ("interval", "Seconds", "秒数"),
    ("isolate", "Isolated", "隔离"),
    ("key", "Name", "名称"),
    ("labels", "Labels", "标签"),
    ("level", "Scope", "范围"),
    ("matchMode", "Combination", "组合方式"),
    ("match_level", "Level", "级别"),
    ("maxAmount", "Amount", "数量"),
    ("max_amount", "Amount", "数量"),
    ("max_ejection_percent", "Instances (%)", "实例 (%)"),
    ("max_match_level", "Last level", "最大级别"),
    ("max_queue_delay", "Longest queueing (s)", "最长排队 (秒)"),
    ("metadata", "Metadata", "元数据"),
    ("method", "Method", "方法"),
    ("minAmount", "Lowest amount", "最小数量"),
    ("minimum_request", "Calls", "最少调用数"),
    ("name", "Name", "名称"),
    ("namespace", "Namespace", "命名空间"),
    ("path", "Path", "路径"),
    ("port", "Port", "端口"),
    ("precision", "Precision", "精度"),
    ("priority", "Priority (0 is first)", "优先级（0 最高）"),
    ("protocol", "Protocol", "协议"),
    ("random_percent", "Share (%)", "比例 (%)"),
    ("receive", "Good answers", "期望响应"),
    ("recover_condition", "Recovery", "恢复"),
    ("regex_combine", "One counter for all calls that match", "匹配的调用共用计数"),
    ("report", "Reports of use", "用量上报"),
    ("resource", "What is limited", "限制对象"),
    ("response", "Answer", "响应"),
    ("route_policy", "Way of routing", "路由方式"),
    ("routing_config", "Routes", "路由配置"),
    ("rule_matcher", "Watched calls", "监控的调用"),
    ("rules", "Sub-rules", "子规则"),
    ("send", "Bytes to send", "发送内容"),
    ("service", "Service", "服务"),
    ("sleep_window", "Seconds", "秒数"),
    ("source", "Calling service", "主调服务"),
    ("startAmount", "Amount at the start", "初始数量"),
    ("strict_nearby", "Never leave the level", "不离开此级别"),
    ("target_service", "Probed service", "探测的服务"),
    ("tcp_config", "TCP probe", "TCP 探测"),
    ("timeout", "Seconds", "秒数"),
    ("transfer", "Forward to service", "转发到服务"),
    ("trigger_condition", "Thresholds", "阈值"),
    ("trigger_conditions", "Thresholds", "阈值"),
    ("trigger_type", "Threshold", "阈值类型"),
    ("type", "Kind", "类型"),
    ("udp_config", "UDP probe", "UDP 探测"),
    ("url", "Path", "路径"),
    ("validDuration", "Time, such as 1s", "时间，如 1s"),
    ("value", "Value", "值"),
    ("value_type", "The value is", "值类型"),
    ("weight", "Weight", "权重"),
    ("@type", "Type of the message", "消息类型"),
    ("id", "Id", "编号"),
];

/// Words of choices by their names in the API.
const WORDS: [(&str, &str, &str); 48] = [
    ("ALL", "everything", "全部"),
    ("AND", "all", "全部"),
    ("CALLER_IP", "caller's address", "主调地址"),
    ("CALLER_METADATA", "caller's metadata", "主调元数据"),
    ("CALLER_SERVICE", "caller's service", "主调服务"),
    ("CAMPUS", "campus", "园区"),
    ("CONCURRENCY", "requests at the same time", "并发请求"),
    ("CONSECUTIVE_ERROR", "errors in a row", "连续错误"),
    ("COOKIE", "cookie", "Cookie"),
    ("CUSTOM", "custom", "自定义"),
    ("DELAY", "duration in ms", "耗时（毫秒）"),
    ("ERROR_RATE", "share of errors", "错误率"),
    ("EXACT", "is", "等于"),
    ("FAILOVER_LOCAL", "count locally", "本地计数"),
    ("FAILOVER_PASS", "let requests pass", "放行请求"),
    ("GLOBAL", "all instances together", "全局"),
    ("GLOBAL_TOTAL", "a total of all instances", "全局总量"),
    ("GROUP", "the group of instances", "实例分组"),
    ("HEADER", "header", "请求头"),
    ("HTTP", "HTTP", "HTTP"),
    ("IN", "is one of", "属于"),
    ("INSTANCE", "the instance", "实例"),
    ("LOCAL", "each instance", "单机"),
    ("METHOD", "method", "方法"),
    ("MetadataPolicy", "by metadata", "按元数据"),
    ("NOT_EQUALS", "is not", "不等于"),
    ("NOT_IN", "is none of", "不属于"),
    ("NearbyPolicy", "to the nearest", "就近"),
    ("OR", "any", "任一"),
    ("OTHERS", "instances without these labels", "不含这些标签的实例"),
    ("OTHER_KEYS", "these labels", "以下标签"),
    ("PARAMETER", "a name for the value", "参数名"),
    ("PATH", "path", "路径"),
    ("QPS", "requests", "请求数"),
    ("QUERY", "query parameter", "查询参数"),
    ("RANGE", "is between", "介于"),
    ("REGEX", "matches the pattern", "匹配正则"),
    ("REGION", "region", "地域"),
    ("RET_CODE", "return code", "返回码"),
    ("RulePolicy", "by conditions", "按条件"),
    ("SERVICE", "the whole service", "整个服务"),
    ("SHARE_EQUALLY", "divided among the instances", "由实例均分"),
    ("SYSTEM", "load of the system", "系统负载"),
    ("TCP", "TCP", "TCP"),
    ("TEXT", "a text", "文本"),
    ("UDP", "UDP", "UDP"),
    ("UNKNOWN", "unknown", "未知"),
    ("ZONE", "zone", "可用区"),
];

fn found(table: &[(&str, &'static str, &'static str)], t: &Texts, name: &str) -> String {
    let row = table.iter().find(|(known, _, _)| *known == name);
    let text = row.map(|(_, english, chinese)| match t.language() {
        Language::English => *english,
        Language::Chinese => *chinese,
    });
    text.unwrap_or(name).to_owned()
}

/// Returns the name of a field.
pub(super) fn field(t: &Texts, name: &str) -> String {
    found(&FIELDS, t, name)
}

/// Returns the text of a word of a choice.
pub(super) fn word(t: &Texts, word: &str) -> String {
    found(&WORDS, t, word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::drafting::kind_of;
    use crate::console::sheet::FieldKind;
    use crate::model::rule::Family;

    fn check(kind: &FieldKind) {
        match kind {
            FieldKind::Object(fields) => {
                for field in fields {
                    assert!(FIELDS.iter().any(|(name, _, _)| *name == field.name), "{} has no name", field.name);
                    check(&field.kind);
                }
            }
            FieldKind::List(item) | FieldKind::Map(item) => check(item),
            FieldKind::Choice(words) | FieldKind::Several(words) => {
                for word in words {
                    assert!(WORDS.iter().any(|(name, _, _)| name == word), "{word} has no text");
                }
            }
            _ => {}
        }
    }

    #[test]
    fn every_field_and_word_of_a_rule_has_a_name_in_both_languages() {
        Family::ALL.iter().for_each(|family| check(kind_of(*family)));
    }
}

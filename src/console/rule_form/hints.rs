//! Hints of the fields of rules in Chinese, by the English ones, which are those of the reference.

use crate::console::texts::{Language, Texts};

const HINTS: [(&str, &str); 62] = [
    ("1 to 128 characters, none of them a control character.", "1 至 128 个字符，不含控制字符。"),
    ("Letters, digits and - . / : _, at most 64 characters.", "字母、数字和 - . / : _，最多 64 个字符。"),
    ("True if the rule is enabled; the default for a new rule.", "规则是否启用；新规则默认启用。"),
    ("Text of at most 1024 characters.", "最多 1024 个字符。"),
    ("Priority; 0 is the highest.", "优先级，0 最高。"),
    (
        "Map of at most 64 entries; keys of at most 128, values of at most 4096 characters.",
        "最多 64 项；键最多 128 个字符，值最多 4096 个字符。",
    ),
    ("Interfaces, any of which must match; all if empty.", "匹配其中任一接口即可；留空表示全部接口。"),
    ("Conditions, all of which must match.", "必须满足全部条件。"),
    ("Name of the header, query parameter, cookie, …", "请求头、查询参数、Cookie 等的名称。"),
    ("Quota of the period.", "一个周期内的配额。"),
    (
        "Length of the period, at least one second. Required unless the resource is CONCURRENCY.",
        "周期长度，至少一秒。除非限制对象为并发请求，否则必填。",
    ),
    ("Precision of the measurement.", "计量的精度。"),
    ("Initial quota while ramping up.", "逐步增加时的初始配额。"),
    ("Lowest quota while reducing.", "逐步减少时的最低配额。"),
    ("Longest time in seconds for which a request may be queued.", "请求最长排队时间，单位为秒。"),
    ("True if all calls that match a pattern share a counter.", "与同一表达式匹配的调用是否共用一个计数器。"),
    ("Name, together with resource, of the limiting plug-in.", "与“限制对象”一起确定限流插件的名称。"),
    ("Fixed period; also accepted as a number of milliseconds.", "固定周期；也可以填写毫秒数。"),
    (
        "Percentage of the quota whose use is reported immediately: 1 to 100.",
        "用量达到配额的此百分比时立即上报：1 至 100。",
    ),
    ("Name of the message in protobuf's JSON, stored as sent.", "protobuf JSON 中的消息名称，按原样保存。"),
    ("RulePolicy; deprecated, stored for older servers.", "按条件路由；已弃用，为旧服务端保留。"),
    ("RulePolicy: sub-rules, the first of which matches applies.", "按条件路由：使用第一条匹配的子规则。"),
    ("Traffic to which a sub-rule applies.", "子规则适用的流量。"),
    (
        "Percentage of the matching traffic that the sub-rule takes: 1 to 100.",
        "子规则接管的匹配流量的百分比：1 至 100。",
    ),
    ("Priority from 0 to 9, 0 first; groups without one are last.", "优先级 0 至 9，0 最先；未设置的分组排在最后。"),
    (
        "Weight; 0 if absent while other groups have one, equal shares if none has one.",
        "权重；其他分组有权重而此处留空时为 0，全部留空时均分。",
    ),
    ("Service to which requests are forwarded.", "请求转发到的服务。"),
    ("True if the group receives no traffic.", "该分组是否不接收流量。"),
    ("MetadataPolicy and NearbyPolicy: called service; * for all.", "按元数据与就近路由：被调服务，* 表示全部。"),
    ("MetadataPolicy and NearbyPolicy: namespace of the called service.", "按元数据与就近路由：被调服务的命名空间。"),
    ("MetadataPolicy: labels that instances must have.", "按元数据路由：实例必须具备的标签。"),
    ("MetadataPolicy: alternative if the labels match no instance.", "按元数据路由：没有实例匹配标签时的后备方式。"),
    ("NearbyPolicy: level to start with.", "就近路由：起始级别。"),
    ("NearbyPolicy: level to end with.", "就近路由：最大级别。"),
    ("NearbyPolicy: true if requests never leave the nearest level.", "就近路由：请求是否从不离开最近的级别。"),
    ("Caller; * or nothing for any.", "主调方；* 或留空表示任意。"),
    ("Called service; * for any.", "被调服务；* 表示任意。"),
    (
        "Superseded by api of a block config, and read if there is none.",
        "已由错误组中的“接口”取代，仅在没有错误组时读取。",
    ),
    (
        "Definition of an error; superseded by block_configs, and read if those are empty.",
        "错误的定义；已由“错误组”取代，仅在错误组为空时读取。",
    ),
    (
        "RET_CODE: condition on the code. DELAY: with EXACT, the milliseconds from which a call is too slow.",
        "返回码：对返回码的条件。耗时：使用“等于”时，为判定调用过慢的毫秒数。",
    ),
    (
        "Thresholds, any of which opens the breaker; superseded by block_configs, and read if those are empty.",
        "达到其中任一阈值即熔断；已由“错误组”取代，仅在错误组为空时读取。",
    ),
    ("CONSECUTIVE_ERROR: number of consecutive errors.", "连续错误：连续出现的错误数。"),
    ("ERROR_RATE: percentage of errors, 0 to 100.", "错误率：错误的百分比，0 至 100。"),
    ("ERROR_RATE: seconds over which calls are counted.", "错误率：统计调用的秒数。"),
    ("ERROR_RATE: number of calls below which the rate is not evaluated.", "错误率：调用数低于此值时不计算错误率。"),
    ("Interface, for the level METHOD; all if absent.", "接口，用于方法级别；留空表示全部。"),
    ("Definitions of an error, any of which suffices.", "错误的定义，满足任一即可。"),
    ("Thresholds, any of which opens the breaker.", "达到其中任一阈值即熔断。"),
    ("Percentage of the instances that may be ejected at a time: 0 to 100.", "同时最多可剔除的实例百分比：0 至 100。"),
    ("Seconds after which a few trial calls are permitted.", "经过此秒数后允许少量试探调用。"),
    ("Number of consecutive trial calls that must succeed.", "必须连续成功的试探调用次数。"),
    ("Code in the answer, at most 2147483647.", "响应中的状态码，最大 2147483647。"),
    ("Seconds between two probes.", "两次探测之间的秒数。"),
    ("Seconds after which a probe has failed.", "超过此秒数的探测视为失败。"),
    ("Port to probe, at most 65535; 0 for the port of the instance.", "探测的端口，最大 65535；0 表示实例的端口。"),
    ("Service whose instances are probed.", "探测其实例的服务。"),
    ("Superseded by api; stored for older clients.", "已由“接口”取代，为旧客户端保留。"),
    ("Answer to refused calls.", "对被拒绝调用的响应。"),
    ("Caller and callee of the watched calls.", "被监控调用的主调方与被调方。"),
    ("Conditions for closing the breaker again.", "恢复（关闭熔断）的条件。"),
    (
        "Configuration for all three policies. The policy determines which fields are allowed: absent ones get their \
         defaults, and those of another policy are refused.",
        "三种路由方式的配置。允许的字段由路由方式决定：缺少的取默认值，属于其他方式的会被拒绝。",
    ),
    ("Switch for the fault detection rules of the service.", "是否启用该服务的主动探测规则。"),
];

/// Returns the hint of a field in the language of the texts.
pub(super) fn hint(t: &Texts, about: &str) -> String {
    let chinese = || HINTS.iter().find(|(english, _)| *english == about).map_or("", |(_, chinese)| chinese);
    match t.language() {
        Language::English => about.to_owned(),
        Language::Chinese => chinese().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::console::drafting::kind_of;
    use crate::console::sheet::FieldKind;
    use crate::model::rule::Family;

    fn collect<'a>(kind: &'a FieldKind, found: &mut BTreeSet<&'a str>) {
        match kind {
            FieldKind::Object(fields) => {
                for field in fields {
                    found.insert(&field.about);
                    collect(&field.kind, found);
                }
            }
            FieldKind::List(item) | FieldKind::Map(item) => collect(item, found),
            _ => {}
        }
    }

    #[test]
    fn every_hint_of_a_rule_is_there_in_chinese_and_no_other() {
        let mut found = BTreeSet::new();
        Family::ALL.iter().for_each(|family| collect(kind_of(*family), &mut found));
        found.remove("");
        let known: BTreeSet<_> = HINTS.iter().map(|(english, _)| *english).collect();
        assert_eq!(found, known);
        assert_eq!(known.len(), HINTS.len());
    }
}

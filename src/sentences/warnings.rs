//! Warnings of xDS in the language of the reader. Their English texts are part of the API.

use super::language::Language;

/// Meanings in Chinese, by the number of the warning.
const MEANINGS: [&str; 27] = [
    "实例地址是主机名：代理和 gRPC 只接受 IP 地址，该实例不下发",
    "同一地址注册了多次：只保留一个",
    "各实例的协议不同：Envoy 对全部实例使用同一种协议",
    "gRPC 没有查询参数和 Cookie，客户端也没有自定义标签：该条件在那里始终不成立",
    "Envoy 按未解码的原文比较查询参数",
    "网关不知道主调方：网关不执行（主调服务可用 caller_service_header 指定的请求头）",
    "对 Envoy 来说过大：表达式或列表需要 re2: large，或满足条件的组合过多",
    "OR 与百分比：gRPC 对每个条件各取一次随机数，因此百分比为近似值；如果目标取决于满足的条件，gRPC 不执行该子规则",
    "标签取值超过 64 个：只下发前 64 个",
    "一个请求涉及三个以上的百分比：Envoy 中为近似值",
    "每个取值各有一个计数器：Envoy 只保留最近使用的计数器",
    "Envoy 将限额平分给已注册的实例",
    "并发数按整个服务近似限制",
    "被限流或熔断的调用，其响应的一部分不执行",
    "xDS 没有这样的字段，或该服务有多个探测规则而只下发第一个",
    "由被调服务实例旁的代理执行，网关与不带代理的 gRPC 客户端不执行",
    "gRPC 不统计连续错误：仅 Envoy 执行",
    "xDS 不区分错误：针对错误的条件不下发",
    "熔断针对分组；客户端只剔除单个实例",
    "xDS 没有这样的级别或降级",
    "gRPC 客户端不发送探测：使用注册的健康状态",
    "Envoy 要求收到全部文本",
    "不下发 UDP 探测",
    "众多代理探测众多实例：每秒达到 1000 次或更多",
    "表达式使用了 RE2 没有或含义不同的语法：不下发",
    "更早的服务或别名占用了此域名：名称只有大小写或点的位置不同",
    "路径的第二个条件：Go、Java 和 Node 的 gRPC 只比较一个，因此不执行该子规则",
];

/// Returns a warning, `W4: …`, in a language.
pub(crate) fn warning(language: Language, text: &str) -> String {
    match (language, parsed(text)) {
        (Language::Chinese, Some((number, rest))) => {
            let place = sub_rule(rest).map(|number| format!("（子规则 {number}）")).unwrap_or_default();
            format!("W{number}{place}：{}", MEANINGS[number - 1])
        }
        _ => text.to_owned(),
    }
}

/// Returns warnings that are joined by semicolons in a language; equal ones once.
pub(super) fn warnings(language: Language, joined: &str) -> String {
    if language == Language::English {
        return joined.to_owned();
    }
    let mut all: Vec<String> = Vec::new();
    for part in joined.split("; ") {
        match (parsed(part), all.last_mut()) {
            // A semicolon within a warning.
            (None, Some(last)) if parsed(last).is_some() => {}
            _ => all.push(part.to_owned()),
        }
    }
    let mut told: Vec<String> = Vec::new();
    for one in all.iter().map(|one| warning(language, one)) {
        if !told.contains(&one) {
            told.push(one);
        }
    }
    told.join("；")
}

/// Splits a warning into its number and its text.
fn parsed(text: &str) -> Option<(usize, &str)> {
    let (number, rest) = text.strip_prefix('W')?.split_once(": ")?;
    let number = number.parse().ok().filter(|number| (1..=MEANINGS.len()).contains(number))?;
    Some((number, rest))
}

/// Returns the number of the sub-rule that the text begins with, from 1.
fn sub_rule(text: &str) -> Option<usize> {
    let (index, _) = text.strip_prefix("rules[")?.split_once(']')?;
    index.parse::<usize>().ok().map(|index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_told_in_the_language_of_the_reader() {
        let text = "W12: rules[1]: a global amount is shared out; each has 1 at least";
        assert_eq!(warning(Language::English, text), text);
        assert_eq!(warning(Language::Chinese, text), "W12（子规则 2）：Envoy 将限额平分给已注册的实例");
        assert_eq!(warning(Language::Chinese, "W99: new"), "W99: new");
        let joined = format!("{text}; W23: rules[0]: UDP probes are not carried");
        assert_eq!(warnings(Language::English, &joined), joined);
        assert_eq!(
            warnings(Language::Chinese, &joined),
            "W12（子规则 2）：Envoy 将限额平分给已注册的实例；W23（子规则 1）：不下发 UDP 探测"
        );
    }

    #[test]
    fn every_warning_of_the_reference_has_a_meaning() {
        let page = include_str!("../../docs/xds-rules.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| W")?.split_once(" |")?.0.parse::<usize>().ok());
        assert_eq!(rows.collect::<Vec<_>>(), (1..=MEANINGS.len()).collect::<Vec<_>>());
    }
}

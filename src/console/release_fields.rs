//! Rows in the form of a release, read as the lines that the command line has.

use super::fields::Fields;

/// Form fields of a row, with the number of the row in place of the asterisk.
pub(super) const LABEL: [&str; 2] = ["label.*.key", "label.*.value"];
pub(super) const STEP: [&str; 2] = ["step.*.percent", "step.*.hold"];
/// Maximum number of rows of either kind.
const ROWS_MAX: usize = 64;
/// Guards with a limit in percent, each with its usual limit.
pub(super) const GUARDS: [(&str, &str); 2] = [("refused", "1"), ("health", "10")];

/// Returns the submitted rows.
pub(super) fn rows(fields: &Fields, names: [&str; 2]) -> Vec<[String; 2]> {
    let named = |number: usize| names.map(|name| name.replace('*', &number.to_string()));
    let is_sent = |names: &[String; 2]| names.iter().any(|name| fields.pairs().any(|(known, _)| known == name));
    let sent = (0..ROWS_MAX).map(named).take_while(is_sent);
    sent.map(|names| names.map(|name| fields.get(&name).to_owned())).collect()
}

/// Returns the labels of a canary as lines `key=value`; rows that are left empty count as absent.
pub(super) fn label_lines(fields: &Fields) -> Vec<String> {
    let typed = fields.get("labels").lines().map(str::to_owned);
    let rows = rows(fields, LABEL).into_iter().filter(|row| row.iter().any(|text| !text.is_empty()));
    typed.chain(rows.map(|[key, value]| format!("{key}={value}"))).collect()
}

/// Returns the steps of a rollout in one line, as the command line writes them; `None` for none.
pub(super) fn steps(fields: &Fields) -> Option<String> {
    let rows = rows(fields, STEP).into_iter().filter(|row| row.iter().any(|text| !text.is_empty()));
    let step = |[percent, hold]: [String; 2]| match (percent.trim_end_matches('%'), hold.as_str()) {
        (percent, "") => format!("{percent}%"),
        (percent, hold) => format!("{percent}%:{hold}"),
    };
    let in_rows: Vec<_> = rows.map(step).collect();
    let is_in_steps = fields.get("type") == "steps" && !in_rows.is_empty();
    fields.given("plan").or_else(|| is_in_steps.then(|| in_rows.join(", ")))
}

/// Returns the guards of a rollout as lines; `none` if the form has them and all are empty.
pub(super) fn guard_lines(fields: &Fields) -> Vec<String> {
    let typed: Vec<_> = fields.get("guards").lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if !typed.is_empty() || !fields.is_set("guard.rows") {
        return typed.into_iter().map(str::to_owned).collect();
    }
    let limits = GUARDS.iter().filter_map(|(name, _)| Some((*name, fields.given(&format!("guard.{name}"))?)));
    let mut lines: Vec<_> = limits.map(|(name, limit)| format!("{name}={limit}")).collect();
    lines.extend(fields.is_set("guard.signal").then(|| "signal".to_owned()));
    lines.extend(fields.given("guard.prometheus").map(|query| format!("prometheus={query}")));
    if lines.is_empty() { vec!["none".to_owned()] } else { lines }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_say_what_the_lines_of_the_command_line_say() {
        let form = "type=steps&label.0.key=zone&label.0.value=a&label.1.key=&label.1.value=&step.0.percent=5&\
                    step.0.hold=10m&step.1.percent=100&step.1.hold=&guard.rows=1&guard.refused=2&guard.signal=1&\
                    guard.prometheus=up%3E1";
        let fields = Fields::parse(form.as_bytes());
        assert_eq!(label_lines(&fields), ["zone=a"]);
        assert_eq!(steps(&fields).as_deref(), Some("5%:10m, 100%"));
        assert_eq!(guard_lines(&fields), ["refused=2", "signal", "prometheus=up>1"]);
        assert_eq!(guard_lines(&Fields::parse(b"guard.rows=1&guard.refused=")), ["none"]);
        assert_eq!(guard_lines(&Fields::parse(b"guards=health%3D3")), ["health=3"]);
        // Steps are for releases in steps only.
        let some = Fields::parse(form.replace("steps", "gray").as_bytes());
        assert_eq!(steps(&some), None);
    }
}

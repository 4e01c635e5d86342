//! Texts of the page of a rule or a file.

texts! {
    ObjectTexts {
        overview: "Overview", "概览";
        definition: "Definition", "定义";
        release: "Release…", "发布…";
        ask_to_release: "Request release…", "申请发布…";
        ask_to_promote: "Request promotion…", "申请转为全量…";
        steer: "Steer the rollout", "控制逐步发布";
        see_request: "See the request", "查看申请";
        save_and_release: "Save and release…", "保存并发布…";
        last_edit: "Draft:", "草稿：";
        last_release: "Releases:", "发布：";
        unreleased: "Unreleased changes: clients still have what is in force.", "有未发布的改动：客户端仍使用生效内容。";
        some_have_it: "Some clients have this draft, as a canary.", "部分客户端已通过灰度获得此草稿。";
        for_readers: "A newer draft exists; clients have what is in force.", "存在更新的草稿；客户端使用生效内容。";
        nothing_to_read: "Nothing is in force yet.", "尚无生效内容。";
        as_json: "Compare as JSON", "以 JSON 比较";
        same_words: "The words are the same; these fields differ:", "文字说明相同，以下字段不同：";
        becomes: "What is released is this:", "将发布的内容：";
        in_steps: "in steps, more clients each time", "分步：逐步扩大到更多客户端";
        labels_why: "Only to clients with all of these labels:", "仅对具备以下全部标签的客户端：";
        label_key: "Name of the label", "标签名";
        label_value: "Value of the label", "标签值";
        percent_of: "% of them (empty: all)", "%（留空表示全部）";
        step_for: "% of the clients, for", "% 的客户端，保持";
        step_hold: "Time until the next step", "到下一步的时间";
        stop_if: "Stop, and give everyone what is in force, if:", "出现以下情况时停止，并恢复生效内容：";
        guard_refused: "clients that refuse it are more than", "拒绝的客户端超过";
        guard_health: "unhealthy instances are more by", "不健康实例增加超过";
        guard_signal: "a program reports a failure", "程序报告失败";
        guard_prometheus: "a query of Prometheus is above or below a value", "Prometheus 查询高于或低于某值";
        counted_by: "Clients are counted by their label", "按以下标签划分客户端";
        reason_for_approval: "Reason, for the approvers", "理由（供审批人参考）";
        put_back:
            "Your edit below is not saved yet. It was put back after the other act.",
            "以下编辑尚未保存，已在其他操作后恢复。";
        clients: "clients", "个客户端";
        for_whom: "for", "对象";
    }
}

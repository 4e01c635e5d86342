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
        for_whom: "for", "对象";
    }
}

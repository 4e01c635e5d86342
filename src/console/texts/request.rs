//! Texts of the page of a request for approval: the release that it makes or is about.

texts! {
    RequestTexts {
        release: "Release", "发布";
        brings_back: "Brings back", "恢复为";
        step: "Step", "步骤";
        to_clients: "To clients with", "面向客户端";
        share: "Percentage of them", "其中的比例";
        by: "counted by", "划分依据";
        steps: "In steps", "分步";
        for_time: "for", "保持";
        at_end: "then for everyone", "之后全量";
        stops: "Stops if", "停止条件";
        or: ", or ", "，或";
    }
}

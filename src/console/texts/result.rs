//! Texts of the results in the audit trail.

texts! {
    ResultTexts {
        any: "any result", "全部结果";
        done: "done", "已完成";
        same: "no change", "无变化";
        waits: "waits for approval", "等待审批";
        needs: "needs approval", "需要审批";
        frozen: "frozen", "冻结中";
        conflict: "conflict", "冲突";
        not_permitted: "not permitted", "没有权限";
        missing: "not there", "不存在";
        there_already: "there already", "已存在";
        in_use: "still in use", "仍在使用";
        invalid: "invalid", "无效";
        too_many: "too much at once", "请求过多";
        no_room: "no room", "空间不足";
        unknown: "outcome unknown", "结果未知";
        failed: "failed", "失败";
    }
}

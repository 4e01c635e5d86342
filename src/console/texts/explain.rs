//! Texts of the page that explains a request.

texts! {
    ExplainTexts {
        all_families: "All rules", "全部规则";
        details: "Details", "详情";
        result: "Result", "结果";
        live: "Live: everyone else", "正式：其他客户端";
        canary: "Canary: its clients", "灰度：其目标客户端";
        gets_live: "This client is in no canary.", "此客户端不在灰度范围内。";
        gets_canary: "This client is in the canary.", "此客户端在灰度范围内。";
        same: "As saved: the same", "按已保存：相同";
        differs: "As saved: different", "按已保存：不同";
        all_same: "What is saved and what is released agree for this request.", "对于此请求，已保存与已发布的结果相同。";
        some_differ:
            "What is saved differs from what is released for this request: clients get it once it is released.",
            "对于此请求，已保存与已发布的结果不同：发布后客户端才能得到。";
        request_differs: "The approval would change this request.", "批准后此请求的结果将改变。";
        request_same: "The approval would not change this request.", "批准后此请求的结果不变。";
        no_rules: "No rule of these kinds is for this service:", "没有以下类型的规则适用于此服务：";
        from_curl: "Read a curl command", "读取 curl 命令";
        from_curl_why:
            "Method, host, path, query, headers and cookies are filled in. Secrets in the headers are left out.",
            "自动填入方法、主机、路径、查询参数、请求头和 Cookie，其中的密钥不会保留。";
        read: "Fill in", "填入";
        change_request: "Request", "请求";
        who_calls: "Caller and client", "调用方与客户端";
        why:
            "Describe a call, and see which limits, routes, breakers and probes act on it: now, in a canary, and after \
             the next release.",
            "描述一次调用，查看哪些限流、路由、熔断和探测规则会作用于它：当前、灰度中，以及下次发布之后。";
    }
}

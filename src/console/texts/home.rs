//! Texts of the first page, of the bar, and of the list of clients.

texts! {
    HomeTexts {
        home: "Home", "首页";
        just_now: "just now", "刚刚";
        waiting: "Waiting for you", "等待你处理";
        own_requests: "Your open requests", "你的待审批申请";
        under_way: "Under way", "进行中";
        attention: "Needs attention", "需要关注";
        newest: "Newest changes", "最近的更改";
        quiet: "Nothing waits for you, and nothing is under way.", "没有等待你处理的事项，也没有进行中的发布。";
        no_changes: "Nothing has been released yet. The first release shows up here.", "尚未发布任何内容，首次发布后在此显示。";
        drafts: "Drafts that clients do not have", "客户端尚未获得的草稿";
        drafts_why: "Saved, and not released: clients keep what they have.", "已保存但未发布：客户端保持现有内容。";
        unhealthy: "Unhealthy services", "不健康的服务";
        clients_refuse: "Clients that refused what they were sent:", "拒绝了下发内容的客户端：";
        clients_behind: "Clients without the release that they should have:", "尚未获得应有版本的客户端：";
        member_away: "This member of the cluster does not answer:", "此集群成员没有响应：";
        and_more: "more", "项未显示";
        no_clients_yet: "no client reads it yet", "尚无客户端读取";
        change_config: "Change a configuration", "修改配置";
        change_config_why:
            "Edit a config file, see the difference, release it to some or to all clients.",
            "编辑配置文件，查看差异，发布给部分或全部客户端。";
        change_rule: "Change a traffic rule", "修改流量规则";
        change_rule_why:
            "Routing, rate limits, circuit breaking and fault detection for Envoy, gRPC and your code.",
            "为 Envoy、gRPC 和你的程序设置路由、限流、熔断与探测。";
        see_clients: "See who has what", "查看谁在使用什么";
        see_clients_why: "Each client with the releases that it has, lags behind or refused.", "每个客户端及其已获取、落后或拒绝的发布。";
        act_release: "release", "发布";
        act_gray: "canary", "灰度发布";
        act_promote: "promote", "转为全量";
        act_roll_back: "roll back", "回滚";
        act_withdraw: "withdraw", "撤回";
        act_stop: "stop", "停止";
        act_delete: "delete", "删除";
        did_release: "released", "发布了";
        did_gray: "released to some clients", "灰度发布了";
        did_promote: "promoted to all", "全量发布了";
        did_roll_back: "rolled back to", "回滚到";
        did_stop: "stopped", "停止了";
        did_withdraw: "withdrew", "撤回了";
        did_schedule: "planned", "计划发布";
        did_fail: "could not release", "未能发布";
        did_delete: "deleted a release of", "删除了发布";
        did_step: "took the next step of", "推进了";
        did_pause: "paused", "暂停了";
        did_resume: "resumed", "恢复了";
        all_namespaces: "All namespaces", "全部命名空间";
        go: "Go", "切换";
        setup: "Settings", "设置";
        contents: "Contents", "目录";
        book: "Documentation", "文档";
        api_reference: "API reference", "API 参考";
        approvals: "Approvals", "审批";
        clients: "Clients", "客户端";
        client: "Client", "客户端";
        find_client: "Address, identity, program or label", "地址、标识、程序或标签";
        protocol: "Protocol", "协议";
        releases_it_has: "Releases that it has", "已获取的发布";
        instance_lists: "instance lists", "个实例列表";
        first_clients:
            "The list has the clients with faults first, and not all of them: search for others.",
            "列表优先显示有问题的客户端，并非全部：请搜索其他客户端。";
        no_clients: "No client is connected.", "没有客户端连接。";
        no_clients_why:
            "Clients show up here when they read: Apollo clients at port 8890, Envoy and gRPC at port 15010, \
             programs by POST /v1/Discover.",
            "客户端读取后在此显示：Apollo 客户端使用 8890 端口，Envoy 与 gRPC 使用 15010 端口，程序使用 POST /v1/Discover。";
        in_contents: "Contents of config files", "配置文件的内容";
        groups: "Groups of config files", "配置分组";
        search_text: "Name, address, label or content", "名称、地址、标签或内容";
        search_about:
            "Search finds services, rules, config files and their contents, clients, approvals, and for administrators \
             users. Keys: / or Ctrl-K.",
            "可搜索服务、规则、配置文件及其内容、客户端、审批，管理员还可搜索用户。快捷键：/ 或 Ctrl-K。";
        changed: "Changed", "修改时间";
        connected: "Connected", "连接时间";
        when: "When", "时间";
        expires: "Expires", "过期";
        can_approve: "Can approve", "可审批";
        can_carry_out: "Can carry it out", "可执行";
        ends: "ends", "结束于";
        clients_now: "Clients that read it now", "当前读取它的客户端";
        canary_now: "In a canary now", "当前灰度";
        xds_resources: "Resources of xDS clients", "xDS 客户端的资源";
        none_has: "none", "无";
    }
}

//! Texts of all pages that have no set of their own.

texts! {
    /// Every text of the console.
    Texts {
        tag: "en", "zh";
        other_tag: "zh", "en";
        other_language: "中文", "English";
        product: "Thuban", "Thuban";
        skip: "Skip to the content", "跳到内容";
        sign_in: "Sign in", "登录";
        sign_out: "Sign out", "退出";
        user: "User", "用户";
        password: "Password", "密码";
        failed: "That did not work", "操作未完成";
        not_there: "Nothing is there", "内容不存在";
        not_allowed: "Not allowed", "没有权限";
        back: "Back", "返回";
        behind:
            "No leader answers: this page shows what this node knows, and nothing can be changed now.",
            "没有主节点响应：本页显示此节点已知的内容，暂时无法修改。";
        services: "Services", "服务";
        rules: "Rules", "规则";
        config: "Config", "配置";
        audit: "Audit", "审计";
        accounts: "Accounts", "账户";
        cluster: "Cluster", "集群";
        search: "Search", "搜索";
        members: "Members", "成员";
        member: "Member", "成员";
        role: "Role", "角色";
        version: "Version", "版本";
        behind_by: "Entries behind", "落后条目";
        reachable: "Reachable", "可达";
        yes: "yes", "是";
        no: "no", "否";
        none_yet: "There are none yet.", "暂无内容。";
        none_match: "None match.", "没有匹配项。";
        alarms: "Alarms", "告警";
        no_alarms: "No alarms.", "没有告警。";
        instances: "Instances", "实例";
        healthy: "healthy", "健康";
        healthy_of_all: "Healthy / all instances", "健康 / 全部实例";
        no_instances:
            "None is registered: instances register by the API, and show up here at once.",
            "暂无实例：实例通过 API 注册后立即显示在此处。";
        namespaces: "Namespaces", "命名空间";
        namespace: "Namespace", "命名空间";
        config_files: "Config files", "配置文件";
        action: "Action", "操作";
        thing: "Object", "对象";
        result: "Result", "结果";
        name: "Name", "名称";
        leader: "leader", "主节点";
        follower: "follower", "从节点";
        learner: "learner", "学习节点";
        level: "Level", "级别";
        service: "Service", "服务";
        comment: "Comment", "备注";
        owners: "Owners", "负责人";
        state: "State", "状态";
        weight: "Weight", "权重";
        place: "Region, zone, campus", "地域、可用区、园区";
        metadata: "Metadata", "元数据";
        isolated: "isolated", "已隔离";
        unhealthy: "unhealthy", "不健康";
        isolate: "Isolate", "隔离";
        take_back: "End isolation", "解除隔离";
        delete: "Delete", "删除";
        delete_rule: "Delete the rule", "删除规则";
        delete_file: "Delete the file", "删除文件";
        create: "Create", "创建";
        new: "new", "新建";
        save: "Save the draft", "保存草稿";
        new_service: "New service", "新建服务";
        new_rule: "New rule", "新建规则";
        new_file: "New file", "新建文件";
        new_user: "New user", "新建用户";
        new_token: "New token", "新建令牌";
        aliases: "Aliases", "别名";
        rules_about_it: "Rules about this service", "与此服务有关的规则";
        no_rules_about_it: "No rule names it.", "没有规则涉及此服务。";
        as_text: "Text", "文本";
        as_table: "Keys", "键值表";
        a_key: "key", "键值";
        as_form: "Form", "表单";
        more_fields: "More fields", "更多字段";
        up: "move up", "上移";
        template: "Template", "模板";
        templates: "Templates of config files", "配置文件模板";
        webhooks: "Webhooks", "Webhook 通知";
        keep: "Save", "保存";
        edit: "Edit", "编辑";
        delivered: "Delivered", "已送达";
        waiting: "Waiting", "等待中";
        dropped: "Dropped", "已丢弃";
        failing: "failing", "失败中";
        last_failure: "Last failure", "最近失败";
        new_key: "New access key", "新建密钥";
        download_backup: "Download a backup", "下载备份";
        was_created: "Created.", "已创建。";
        was_saved: "Saved. Clients see it once it is released.", "草稿已保存，发布后客户端才能看到。";
        was_kept: "Saved.", "已保存。";
        was_deleted: "Deleted.", "已删除。";
        was_released: "Released.", "已发布。";
        was_asked: "Approval is asked for; nothing is changed before others approve it.", "已申请审批，批准前不会有变化。";
        was_released_to_some: "Released as a canary: some clients get it.", "已灰度发布：部分客户端可以看到。";
        was_scheduled: "Scheduled: clients get it at its time, as listed below.", "已定时：到时间后客户端才能看到，见下方列表。";
        goes_on: "Begun: it continues in the background.", "已开始，在后台继续。";
        was_as_it_was: "Nothing was changed: it was so already.", "没有变化：原本就是这样。";
        enforced_by: "Enforced by", "由谁执行";
        as_json: "Show as JSON", "以 JSON 显示";
        requests: "Requests", "审批";
        contracts: "Contracts", "契约";
        policies: "Policies", "策略";
        approvals: "Approvals", "所需审批";
        gated_actions: "Gated actions", "受控操作";
        freezes: "Freezes", "冻结";
        frozen: "frozen", "冻结中";
        not_frozen: "no freeze", "未冻结";
        advice: "Warnings about this draft", "此草稿的警告";
        not_carried: "Not carried out by xDS clients", "xDS 客户端不执行的部分";
        part_of: "Part of the request", "所属申请";
        decided_together: "Decided together", "一并审批";
        acts: "Acts", "操作数";
        not_compared: "Too much to compare here: see the page of this act.", "内容过多，请在该操作的页面查看。";
        more_acts: "Further acts that are not shown here", "此处未显示的其他操作";
        given_approvals: "Approvals", "已有审批";
        with_request: "Once approved", "批准之后";
        before_and_after: "Before and after the approval of", "审批前后对比：";
        explain_change: "Explain a call before and after", "对比执行前后的调用";
        things_named: "Names", "名称";
        no_requests: "There is no request.", "没有申请。";
        open: "open", "待审批";
        approved: "approved", "已批准";
        carried_out: "done", "已执行";
        withdrawn: "withdrawn", "已撤回";
        stale: "stale", "已失效";
        expired: "expired", "已过期";
        approve: "Approve", "批准";
        refuse: "Refuse", "拒绝";
        carry_out: "Carry it out", "执行";
        would_change: "Changes beside what is in force now", "与当前生效版本相比的变化";
        no_difference: "No difference that you may see.", "没有可见的差异。";
        ask_for_approval: "Ask for approval", "申请审批";
        approval_why:
            "A policy asks for the approval of others. It is for what is saved now.",
            "策略要求他人审批，审批的是现在保存的内容。";
        reason_of_request: "Reason", "理由";
        was_changed: "Done.", "已完成。";
        priority: "Priority", "优先级";
        in_force: "In force", "生效中";
        not_released: "not released", "未发布";
        draft: "Draft", "草稿";
        draft_differs: "draft differs", "草稿有改动";
        draft_same: "The same as what is in force: nothing need be released.", "与生效内容相同：无需发布。";
        never_released: "Nothing is in force yet: clients get it when it is released.", "尚无生效内容：发布后客户端才能得到。";
        clients_see_none: "Clients get nothing.", "客户端得不到内容。";
        rollback_needs_no_publish:
            "Promoting, stopping, withdrawing and rolling back take effect at once. \
             The draft stays as it is, and nothing need be released afterwards.",
            "转全量、停止、撤回与回滚立即生效，草稿保持不变，之后无需再发布。";
        gray: "gray", "灰度";
        scheduled: "scheduled", "定时";
        failed_release: "failed", "失败";
        inactive: "inactive", "未生效";
        disabled: "disabled", "已停用";
        in_words: "The draft in words", "草稿的文字说明";
        changes: "What changes for clients: from what is in force to the draft", "对客户端的改动：从生效内容到草稿";
        release_it: "Release the draft", "发布草稿";
        release_name: "Name of the release", "发布名称";
        made_if_absent: "made if left empty", "留空则自动生成";
        to_all: "to all clients", "对全部客户端";
        to_some: "gray: to some clients first", "灰度：先对部分客户端";
        percent: "Percent of them", "百分比";
        rollout: "Rollout of", "逐步发布";
        rollout_running: "running", "进行中";
        rollout_paused: "paused", "已暂停";
        rollout_done: "done", "已完成";
        rollout_stopped: "stopped", "已停止";
        rollout_step: "step", "步骤";
        rollout_next: "next step at", "下一步时间";
        rollout_pause: "Pause", "暂停";
        rollout_resume: "Resume", "继续";
        rollout_advance: "Next step now", "立即下一步";
        rollout_plan: "Steps: shares and how long each holds; the last is 100 %", "步骤：比例及保持时间，最后一步为 100%";
        rollout_guards:
            "Guards that stop it (a line each; refused=1 and health=10 where empty, none for no guard): refused=1, \
             health=10, signal, prometheus=QUERY>VALUE",
            "守护条件（每行一个；留空为 refused=1 和 health=10，none 表示不设）：refused=1、health=10、signal、\
             prometheus=QUERY>VALUE";
        sure_advance: "Take the next step now, before its hold is over?", "在保持时间结束前立即进入下一步？";
        acts_on: "Acts on the calls of", "作用于以下服务的调用";
        publish_at: "Not before (UTC)", "定时发布 (UTC)";
        releases: "Releases", "发布";
        no_releases: "There is none yet: it comes with the first release of the draft.", "暂无发布：首次发布草稿后出现。";
        history: "History", "历史";
        promote: "Promote to all", "转为全量";
        stop: "Stop", "停止";
        withdraw: "Withdraw", "撤回";
        call_off: "Call off", "取消发布";
        to_previous: "back to the one before", "回到上一个版本";
        roll_back: "Roll back to this", "回滚到此版本";
        sure_delete: "Delete it for good?", "确定永久删除？";
        sure_delete_rule: "Delete the rule with all its releases? Clients lose it at once.", "删除规则及其所有发布？客户端会立即失去它。";
        sure_delete_file: "Delete the file with all its releases? Clients lose it at once.", "删除文件及其所有发布？客户端会立即失去它。";
        sure_promote: "Give this gray release to all clients?", "让所有客户端使用此灰度发布？";
        sure_stop:
            "End this gray release? Its clients fall back to what is in force for all.",
            "停止此灰度发布？其客户端将回到全量发布的内容。";
        sure_call_off: "Call this release off? It is not published then.", "取消此定时发布？到时将不会发布。";
        sure_withdraw: "Take this release from all clients?", "从所有客户端撤回此发布？";
        sure_rollback: "Give this release to all clients again?", "让所有客户端重新使用此发布？";
        sure_disable: "End all logins of this user, on every node?", "结束此用户在所有节点上的登录？";
        sure_transfer: "Let this member lead? Writes wait for about a second.", "让此成员成为主节点？写入会等待约一秒。";
        sure_promote_member: "Give this member a vote?", "给此成员投票权？";
        sure_remove: "Let this member leave for good? Its id is spent.", "让此成员永久离开？其编号不能再用。";
        and_more: "Found and not shown:", "未显示的结果：";
        explain_request: "Explain a request", "解释请求";
        in_lines:
            "Headers, query, cookies, labels and metadata: name=value, a line for each.",
            "请求头、查询参数、Cookie、标签与元数据：每行一个 name=value。";
        protocol: "Protocol", "协议";
        method: "Method", "方法";
        path: "Path", "路径";
        headers: "Headers", "请求头";
        cookies: "Cookies", "Cookie";
        query: "Query", "查询参数";
        labels: "Labels", "标签";
        client_labels: "Labels of the client (for gray releases)", "客户端标签（用于灰度）";
        caller_namespace: "Caller's namespace", "主调命名空间";
        caller_service: "Caller's service", "主调服务";
        caller_metadata: "Caller's metadata", "主调元数据";
        caller_ip: "Caller's address", "主调地址";
        released: "As released", "按已发布";
        saved: "As saved", "按已保存";
        applies: "applies", "生效";
        shadowed: "shadowed", "被覆盖";
        empty_rule: "empty", "空";
        not_matched: "not matched", "不匹配";
        gray_releases: "Gray releases: what only some clients see", "灰度发布：仅部分客户端可见";
        all: "All", "全部";
        groups: "Config groups", "配置分组";
        new_alias: "New alias", "新建别名";
        group: "Group", "分组";
        format: "Format", "格式";
        content: "Content", "内容";
        force: "release it though it is not well-formed", "即使格式有误也发布";
        encrypted: "encrypted", "已加密";
        who_has_it: "Who has it", "谁在使用";
        no_holders: "No client has asked for it in the last minutes.", "最近几分钟内没有客户端获取它。";
        current: "current", "最新";
        last_minutes: "The last 15 minutes of member", "最近 15 分钟，成员";
        at_most: "peak", "最高";
        writes: "writes", "写入";
        pulls: "config pulls", "配置拉取";
        held_polls: "held polls", "挂起的长轮询";
        refusals: "errors", "错误响应";
        leader_changes: "leader changes", "主节点变更";
        map: "Map", "服务图";
        map_told: "Services and the calls between them; the table below says the same.", "服务及其调用关系；下表内容相同。";
        map_key:
            "A line: the left service has the instances of the right one; dashed: only a rule says so. \
             A number: rules in force for that call, or for every call of a service.",
            "实线：左侧服务持有右侧服务的实例；虚线：仅由规则得知。数字：对该调用或该服务所有调用生效的规则数。";
        map_too_large:
            "More than 300 services: choose a namespace for a picture, the table has all.",
            "服务超过 300 个：请选择命名空间以显示图形，下表包含全部。";
        calls: "Calls", "调用关系";
        no_calls:
            "No instance of a service has asked for another one of late, and no rule names a caller.",
            "最近没有服务实例获取其他服务，也没有规则指明主调。";
        caller: "Caller", "主调";
        callee: "Callee", "被调";
        callers_with_instances: "Its instances that have the list", "持有列表的主调实例";
        rules_everywhere: "Rules for every service", "对所有服务生效的规则";
        without_calls: "Services without known calls", "没有已知调用的服务";
        one_by_one: "Each client", "逐个客户端";
        is_behind: "behind", "落后";
        is_held: "have it", "已获取";
        timeline_told: "Releases over time; the table below says the same.", "发布时间线；下表内容相同。";
        timeline_key: "thick: for all, thin: gray", "粗线：全量，细线：灰度";
        agent: "Program", "客户端程序";
        identity: "Identity", "标识";
        applied: "Applied", "已应用";
        have_applied: "applied", "已应用";
        refused: "refused", "已拒绝";
        under_way: "under way", "进行中";
        proxies: "xDS clients", "xDS 客户端";
        no_proxies: "No proxy and no gRPC client is connected.", "当前没有代理或 gRPC 客户端连接。";
        silent_members: "Members that could not be asked:", "无法询问的成员：";
        resources: "Resources", "资源";
        users: "Users", "用户";
        tokens: "Tokens of programs", "程序令牌";
        access_keys: "Access keys of config clients", "配置客户端密钥";
        grants: "Grants", "权限";
        made_by: "Made by", "创建者";
        enable: "Enable", "启用";
        disable: "Disable", "停用";
        app: "App", "应用";
        mode: "Mode", "模式";
        shown_once: "This is shown once and kept nowhere:", "仅显示一次，不会保存：";
        cluster_id: "Cluster", "集群";
        peer: "Address for other members", "成员间地址";
        transfer: "Let it lead", "设为主节点";
        promote_member: "Give it a vote", "授予投票权";
        remove: "Remove", "移除";
        add_member: "Add a member", "添加成员";
        add_member_why:
            "The new node, started with the same cluster secret, receives the log without a vote; \
             give it one when it has caught up.",
            "新节点用相同的集群密钥启动，先接收日志而无投票权；追上后再授予投票权。";
        settings: "Settings", "设置";
        backup: "Backup", "备份";
        backup_why: "Taken from any node while it serves; with the command line:", "可在任一运行中的节点上进行；使用命令行：";
        pages: "Pages", "分页";
        before: "previous", "上一页";
        after: "next", "下一页";
        kind: "Kind", "类型";
        since: "Since (UTC)", "开始时间 (UTC)";
        until: "Until (UTC)", "结束时间 (UTC)";
        address: "Address", "地址";
        my_account: "My account", "我的账户";
        sessions: "Where I am logged in", "登录会话";
        this_session: "this one", "当前会话";
        end_session: "End it", "结束";
        change_password: "Change the password", "修改密码";
        old_password: "Old password", "旧密码";
        new_password: "New password (8 to 128 characters; all logins end)", "新密码（8 至 128 个字符，所有登录将结束）";
        once_more: "New password once more", "再次输入新密码";
    }
    parts {
        explain: explain::ExplainTexts;
        home: home::HomeTexts;
        help: help::HelpTexts;
        object: object::ObjectTexts;
        form: form::FormTexts;
        request: request::RequestTexts;
        results: result::ResultTexts;
        sso: sso::SsoTexts;
    }
}

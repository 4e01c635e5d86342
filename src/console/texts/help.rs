//! Texts that say what to do: pages of refusals, empty lists, forms.

texts! {
    HelpTexts {
        not_there:
            "The address may be mistyped, the object may have been deleted, or your account may not be allowed to \
             see it.",
            "地址可能有误，对象可能已被删除，或者你的账户无权查看。";
        needs_role: "You need a role that allows it:", "你需要具备以下角色之一：";
        or: " or ", "、";
        ask: "These users can grant it:", "以下用户可以授予：";
        asked_open: "A request to release this draft waits for approval:", "此草稿的发布申请正在等待审批：";
        asked_approved: "A request to release this draft is approved and can be carried out:", "此草稿的发布申请已批准，可以执行：";
        was_asked_before: "This request was open already; no second one was made.", "该申请已存在，没有重复创建。";
        asked_by: "request of", "申请人";
        canary_first:
            "During a canary a release to all clients is refused: promote it or stop it first.",
            "灰度期间不能全量发布：请先转为全量或停止灰度。";
        conflict: "saved another draft while you edited", "在你编辑时保存了另一份草稿";
        conflict_why:
            "Your text is kept below and not saved. The lines show what saving it now would change in the other \
             draft.",
            "你的内容保留在下方，尚未保存。以下为现在保存将对另一份草稿造成的改动。";
        monday: "Monday", "星期一";
        tuesday: "Tuesday", "星期二";
        wednesday: "Wednesday", "星期三";
        thursday: "Thursday", "星期四";
        friday: "Friday", "星期五";
        saturday: "Saturday", "星期六";
        sunday: "Sunday", "星期日";
        no_instances: "without instances", "无实例";
        namespaces_about:
            "A namespace separates teams or environments: it holds services, config groups and rules.",
            "命名空间用于区分团队或环境，包含服务、配置分组与规则。";
        templates_about: "A template is the content that a new config file begins with.", "模板是新配置文件的初始内容。";
        webhooks_about:
            "A webhook sends releases, refusals and health changes to an HTTP receiver, in order.",
            "Webhook 按顺序将发布、拒绝与健康变化发送给 HTTP 接收方。";
        policies_about: "A policy demands approvals for releases, or forbids them at times.", "策略要求发布前审批，或在某些时段禁止发布。";
        contracts_about:
            "A contract refuses config files and rules that break a JSON Schema or an expression.",
            "契约拒绝不符合 JSON Schema 或表达式的配置文件与规则。";
        services_about:
            "Services register themselves with their first instance, or are created here.",
            "服务在首个实例注册时自动创建，也可以在此创建。";
        rules_about: "A rule has no effect until its draft is released.", "规则的草稿发布后才会生效。";
        files_about:
            "Clients of Apollo read the files of the group that is their app id.",
            "Apollo 客户端读取与其 app id 同名分组中的文件。";
        requests_about: "A policy makes a release wait here for the approval of others.", "策略会让发布在此等待他人审批。";
        by_command: "On the command line:", "使用命令行：";
        wrong_password: "Wrong user name or password.", "用户名或密码错误。";
    }
}

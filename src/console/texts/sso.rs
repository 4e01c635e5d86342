//! Texts of single sign-on: the sign-in page, providers, identities and sessions.

texts! {
    SsoTexts {
        continue_with: "Continue with", "使用以下方式登录：";
        or_password: "Or with a password of this cluster:", "或使用本集群的密码：";
        signed_out: "You are signed out here.", "你已在此处退出。";
        sign_out_at: "You may still be signed in at", "你可能仍在以下提供方处于登录状态：";
        sign_out_there: "Sign out there too", "同时在该处退出";
        sign_in_again: "Sign in again", "重新登录";
        providers: "Identity providers", "身份提供方";
        providers_about:
            "A provider lets people of your company sign in, and programs call with its tokens. Bindings give rights \
             by claims.",
            "身份提供方让公司人员登录，并让程序使用其令牌调用；绑定按声明授予权限。";
        new_provider: "New provider", "新建提供方";
        issuer: "Issuer", "签发者";
        programs: "Programs", "程序";
        bindings: "Bindings", "绑定";
        test: "Test", "测试";
        test_about:
            "This node asks the provider now. With a token, the claims and the rights that follow are shown too; the \
             token is not stored.",
            "此节点现在询问提供方。填入令牌后，还会显示声明及由此得到的权限；令牌不会被保存。";
        token: "Token (optional)", "令牌（可选）";
        step: "Step", "步骤";
        step_good: "good", "正常";
        step_bad: "failed", "失败";
        redirect_uri: "Redirect address to enter at the provider", "在提供方填写的回调地址";
        logout_uri: "Address for back-channel logout", "后端退出通知地址";
        identities: "Identities", "身份";
        identities_about:
            "People who have signed in at a provider. A name belongs to the first person that signed in with it; free \
             it here for another one.",
            "曾通过身份提供方登录的人员。名称属于首个使用它登录的人，可在此释放给他人。";
        subject: "Subject", "主体";
        last_seen: "Last seen", "最近登录";
        free: "Free the name", "释放名称";
        free_tokens: "and end the service tokens of this person", "并终止此人的程序令牌";
        sure_free: "Free this name? Sessions of this person end.", "释放该名称？此人的会话将结束。";
        their_tokens: "Service tokens of this person:", "此人的程序令牌：";
        sessions_of: "Sessions of", "登录会话：";
        no_sessions: "There is no session.", "没有会话。";
    }
}

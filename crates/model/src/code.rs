//! Table of business codes: every answer of the management surface carries one.
//!
//! The first three digits of a code are its HTTP status. Numbers and names follow the Polaris family if it has one;
//! those from 503001 on are our own.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! codes {
    ($( $name:ident = $number:literal $info:literal; )+) => {
        /// A business code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $( #[doc = $info] $name, )+ }

        impl Code {
            /// All codes in order of their numbers.
            pub const ALL: &'static [Code] = &[ $( Code::$name, )+ ];

            /// Returns the number on the wire.
            pub fn number(self) -> u32 {
                match self { $( Code::$name => $number, )+ }
            }

            /// Returns the text of `info` without a detail.
            pub fn info(self) -> &'static str {
                match self { $( Code::$name => $info, )+ }
            }

            /// Returns the code of a number, if it is in the table.
            pub fn of_number(number: u32) -> Option<Code> {
                match number { $( $number => Some(Code::$name), )+ _ => None }
            }
        }
    };
}

codes! {
    ExecuteSuccess = 200000 "execute success";
    DataNoChange = 200001 "discover data is no change";
    NoNeedUpdate = 200002 "update data is no change, no need to update";
    RequestAccepted = 202000 "approval is asked for, nothing was changed";

    BadRequest = 400000 "bad request";
    ParseException = 400001 "request decode failed";
    EmptyRequest = 400002 "empty request";
    BatchSizeOverLimit = 400003 "batch size over the limit";
    InvalidDiscoverResource = 400004 "invalid discover resource";
    InvalidParameter = 400103 "invalid parameter";
    EmptyQueryParameter = 400104 "query instance parameter is empty";
    InvalidQueryInstanceParameter = 400105 "query instance, service or namespace or host is required";
    ContractBroken = 400107 "a contract is broken, nothing was changed";
    InvalidNamespaceName = 400110 "invalid namespace name";
    InvalidServiceName = 400120 "invalid service name";
    InvalidServiceOwners = 400121 "invalid service owners";
    InvalidServiceToken = 400122 "invalid service token";
    InvalidServicePorts = 400124 "invalid service ports";
    InvalidServiceBusiness = 400125 "invalid service business";
    InvalidServiceDepartment = 400126 "invalid service department";
    InvalidServiceCmdb = 400127 "invalid service CMDB";
    InvalidServiceComment = 400128 "invalid service comment";
    InvalidServiceAliasComment = 400129 "invalid service alias comment";
    InvalidInstanceId = 400130 "invalid instance id";
    InvalidInstanceHost = 400131 "invalid instance host";
    InvalidInstancePort = 400132 "invalid instance port";
    InvalidServiceAlias = 400133 "invalid service alias";
    InvalidNamespaceWithAlias = 400134 "request namespace is not allow to create sid type alias";
    InvalidServiceAliasOwners = 400135 "invalid service alias owners";
    InvalidInstanceProtocol = 400136 "invalid instance protocol";
    InvalidInstanceVersion = 400137 "invalid instance version";
    InvalidInstanceLogicSet = 400138 "invalid instance logic set";
    InvalidInstanceIsolate = 400139 "invalid instance isolate";
    HealthCheckNotOpen = 400140 "server not open health check";
    InvalidMetadata = 400150 "the length of metadata is too long or metadata contains invalid characters";
    ExistedResource = 400201 "existed resource";
    NotFoundResource = 400202 "not found resource";
    NamespaceExistedServices = 400203 "some services existed in namespace";
    ServiceExistedInstances = 400204 "some instances existed in service";
    ServiceExistedAlias = 400210 "some aliases existed in service";
    NamespaceExistedConfigGroups = 400219 "some config group existed in namespace";
    NamespaceExistedGovernanceRules = 400220 "some governance rules existed in namespace";
    NotFoundService = 400301 "not found service";
    NotFoundInstance = 400303 "not found instances";
    NotFoundServiceAlias = 400304 "not found service alias";
    NotAllowAliasCreateInstance = 400502 "not allow service alias creating instance";
    NotAllowCreateAliasForAlias = 400504 "only source service can create alias";
    InvalidConfigFileGroupName = 400801 "invalid config file group name";
    InvalidConfigFileName = 400802 "invalid config file name";
    InvalidConfigFileContentLength = 400803 "config file content too long";
    InvalidConfigFileFormat = 400804 "invalid config file format, only support json,xml,html,properties,text,toml,yaml";
    InvalidConfigFileTags = 400805 "invalid config file tags, they come in key,value pairs and are not blank";
    NotFoundResourceConfigFile = 400807 "config file not existed";
    InvalidConfigFileTemplateName = 400808 "invalid config file template name";
    DecryptConfigFileException = 400811 "config file content cannot be decrypted";
    NotMatchContentToFormat = 400813 "config file content does not match its format";
    InvalidMatchRule = 400904 "invalid labels of a gray release";

    NotAllowedAccess = 401001 "access is not approved";
    EmptyAuthToken = 401002 "auth token empty";
    TokenNotExisted = 401004 "token not existed";
    OperationRoleForbidden = 403002 "operation role exception";
    UnknownRoute = 404000 "no such route";
    MethodNotAllowed = 405000 "method not allowed";
    DataConflict = 409000 "data is conflict";
    ApprovalRequired = 409001 "approval is required, nothing was changed";
    Frozen = 409002 "frozen, nothing was changed";
    RequestTooLarge = 413000 "request body over the limit";
    AnswerTooLong = 413002 "the answer would be too long, reduce the limit";
    TooManyLogins = 429002 "too many failed logins, try again later";
    TooMuchUnderWay = 429003 "bodies and answers use all the memory they may, nothing was changed, try again later";
    ExecuteException = 500000 "execute exception";
    StoreLayerException = 500001 "store layer exception";
    NoLeader = 503001 "no leader is known, nothing was changed, it is safe to retry";
    TooManyWaiters = 503002 "too many held requests, try another node";
    LevelNotReached = 503003 "not supported yet: every member of the cluster has to run a version that knows this";
    StateDiverged = 503004 "this node has stopped serving, ask another one";
    NoDataKey = 503005 "this node does not have the required data key, see --data-key-file, nothing was changed";
    NodeBehind = 503006 "this node has not applied the state that the client has seen, retry here or on another node";
    ProviderAway = 503007 "an identity provider is out of reach, nothing was changed, it is safe to retry";
    OutcomeUnknown = 504001 "the outcome is unknown: the operation may or may not have been carried out";
    ReadTimedOut = 504002 "the answer took too long, nothing was changed, it is safe to ask again";
    NoRoom = 507001 "disk, memory or quota is exhausted, nothing was changed";
    TooMany = 507002 "there are as many as there may be, nothing was changed";
}

impl Code {
    /// Returns the HTTP status: the first three digits.
    pub fn status(self) -> u16 {
        u16::try_from(self.number() / 1000).expect("codes have six digits")
    }

    /// Reports whether the code is a 200xxx one or that of an accepted request.
    pub fn is_success(self) -> bool {
        matches!(self.status(), 200 | 202)
    }
}

/// Stored and sent between nodes as a number, so that renaming a variant does not affect existing data.
impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.number())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u32::deserialize(deserializer)?;
        Code::of_number(number).ok_or_else(|| serde::de::Error::custom(format!("unknown business code {number}")))
    }
}

/// An expected failure: the code and its detail. `check` and `apply` return it, and the answer of the batch item
/// carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: Code,
    /// Detail; empty if the text of the code suffices.
    pub detail: String,
}

impl Refusal {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Refusal { code, detail: detail.into() }
    }

    /// Returns the refusal of a thing that does not exist, or that the caller may not see.
    pub fn missing(thing: &str) -> Self {
        Refusal::new(Code::NotFoundResource, format!("there is no {thing}"))
    }

    /// Returns the `info` of the answer: the text of the code, then the detail.
    pub fn info(&self) -> String {
        info_of(self.code, &self.detail)
    }
}

impl From<Code> for Refusal {
    fn from(code: Code) -> Self {
        Refusal::new(code, "")
    }
}

/// Returns the name of a thing in texts: `service/pay in shop`, `user/ann`.
pub fn placed(kind: &str, namespace: &str, name: &str) -> String {
    if namespace.is_empty() { format!("{kind}/{name}") } else { format!("{kind}/{name} in {namespace}") }
}

/// Returns the text of `code`, then `detail` if there is one.
pub fn info_of(code: Code, detail: &str) -> String {
    if detail.is_empty() { code.info().to_owned() } else { format!("{}: {detail}", code.info()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_ordered_and_carry_a_valid_status() {
        for pair in Code::ALL.windows(2) {
            assert!(pair[0].number() < pair[1].number(), "{:?} before {:?}", pair[0], pair[1]);
        }
        for code in Code::ALL {
            assert!(
                [200, 202, 400, 401, 403, 404, 405, 409, 413, 429, 500, 503, 504, 507].contains(&code.status()),
                "{code:?}"
            );
            assert_eq!(Code::of_number(code.number()), Some(*code));
        }
    }
}

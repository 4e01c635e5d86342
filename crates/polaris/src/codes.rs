//! Codes of answers, as Polaris' SDKs know them.
//!
//! The Rust SDK reads a number into an enum without a check, so no other number is ever sent.

use crate::model::code::Code;

/// Codes of Thuban that Polaris has too, with the same number.
const SHARED: &[Code] = &[
    Code::ExecuteSuccess,
    Code::DataNoChange,
    Code::NoNeedUpdate,
    Code::BadRequest,
    Code::ParseException,
    Code::EmptyRequest,
    Code::BatchSizeOverLimit,
    Code::InvalidDiscoverResource,
    Code::InvalidParameter,
    Code::InvalidNamespaceName,
    Code::InvalidServiceName,
    Code::InvalidInstanceId,
    Code::InvalidInstanceHost,
    Code::InvalidInstancePort,
    Code::InvalidMetadata,
    Code::ExistedResource,
    Code::NotFoundResource,
    Code::NotFoundService,
    Code::NotFoundInstance,
    Code::NotAllowAliasCreateInstance,
    Code::InvalidConfigFileGroupName,
    Code::InvalidConfigFileName,
    Code::InvalidConfigFileContentLength,
    Code::InvalidConfigFileFormat,
    Code::NotAllowedAccess,
    Code::EmptyAuthToken,
    Code::TokenNotExisted,
    Code::DataConflict,
    Code::ExecuteException,
    Code::StoreLayerException,
];

/// Answer to a refused call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeOrStatus {
    /// Code in the answer.
    Code(u32),
    /// Status of gRPC: the call may succeed later, or on another node.
    Unavailable,
    /// Status of gRPC: a limit is reached.
    Exhausted,
}

/// Returns the answer for a code.
pub fn answer(code: Code) -> CodeOrStatus {
    if SHARED.contains(&code) {
        return CodeOrStatus::Code(code.number());
    }
    match code {
        Code::NoRoom | Code::TooMany => CodeOrStatus::Code(Code::StoreLayerException.number()),
        Code::LevelNotReached | Code::NoDataKey => CodeOrStatus::Code(Code::ExecuteException.number()),
        Code::ApprovalRequired | Code::Frozen | Code::RequestAccepted => {
            CodeOrStatus::Code(Code::NotAllowedAccess.number())
        }
        _ => match code.number() / 1000 {
            413 | 429 => CodeOrStatus::Exhausted,
            503 | 504 => CodeOrStatus::Unavailable,
            403 => CodeOrStatus::Code(Code::NotAllowedAccess.number()),
            409 => CodeOrStatus::Code(Code::DataConflict.number()),
            400 => CodeOrStatus::Code(Code::InvalidParameter.number()),
            404 | 405 => CodeOrStatus::Code(Code::BadRequest.number()),
            _ => CodeOrStatus::Code(Code::ExecuteException.number()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of Polaris' table that an answer may have.
    const POLARIS: &[u32] = &[
        200000, 200001, 200002, 400000, 400001, 400002, 400003, 400004, 400103, 400110, 400120, 400130, 400131, 400132,
        400150, 400201, 400202, 400301, 400303, 400502, 400801, 400802, 400803, 400804, 401001, 401002, 401004, 409000,
        500000, 500001,
    ];

    #[test]
    fn every_code_is_one_of_polaris() {
        for code in Code::ALL {
            if let CodeOrStatus::Code(number) = answer(*code) {
                assert!(POLARIS.contains(&number), "{code:?} is {number}");
                assert_eq!(code.is_success(), number < 300_000 || *code == Code::RequestAccepted, "{code:?}");
            }
        }
        assert_eq!(answer(Code::NoLeader), CodeOrStatus::Unavailable);
        assert_eq!(answer(Code::OutcomeUnknown), CodeOrStatus::Unavailable);
        assert_eq!(answer(Code::TooManyWaiters), CodeOrStatus::Unavailable);
        assert_eq!(answer(Code::TooMuchUnderWay), CodeOrStatus::Exhausted);
        assert_eq!(answer(Code::InvalidInstanceProtocol), CodeOrStatus::Code(400103));
        assert_eq!(answer(Code::NotFoundResource), CodeOrStatus::Code(400202));
    }
}

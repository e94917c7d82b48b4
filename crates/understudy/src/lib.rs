//! understudy

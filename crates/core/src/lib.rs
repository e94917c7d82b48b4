//! core

pub mod seam;

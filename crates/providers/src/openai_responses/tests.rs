mod classify;
mod decode;
mod odd;
mod request;
mod resume;

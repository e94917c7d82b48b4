mod classify;
mod decode;
mod odd;
mod provider;
mod request;
mod resume;

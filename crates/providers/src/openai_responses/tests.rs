mod decode;
mod odd;
mod resume;

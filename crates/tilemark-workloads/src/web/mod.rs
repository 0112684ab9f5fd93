//! The workload `web`: nginx serves a mix of file sizes; GET requests come over kept-alive connections.

mod body;
mod conversation;
mod factory;
mod response;
mod service;

pub use body::fill_body;
pub use factory::WebFactory;
pub use service::{
    NGINX, PORT, ServiceFile, file_path, nginx_arguments, nginx_conf, ready_request, service_files,
};

//! In place of schemars' `derive(JsonSchema)` in builds that write no schemas: it derives nothing.
//!
//! Only `cargo xtask` writes schemas, into `docs/schema`. With the feature `schema` of a crate its types derive schemars' own; a release
//! build, which has no use for 210 schemas, compiles neither them nor schemars.

use proc_macro::TokenStream;

/// Derives nothing, and takes the attributes that schemars would read.
#[proc_macro_derive(JsonSchema, attributes(schemars))]
pub fn json_schema(_: TokenStream) -> TokenStream {
    TokenStream::new()
}

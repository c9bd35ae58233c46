//! `store`, `redis` and `replicas`: state that gateways share. Contains secrets and so has no
//! `Debug`.

use std::path::PathBuf;

use super::leaf::{List, Text, Toggle};

lockgate_text::settings! {
    pub struct Store as "Store" {
        /// PostgreSQL, for gateways that share changes made at run time:
        /// `postgres://USER:PASSWORD@HOST/DATABASE`. A reference: `${STORE_URL}` or `file:PATH`.
        /// Without it a SQLite file is used.
        pub url: Option<String> = Option<Text>,
        /// The SQLite file; relative to this file. Default `.lockgate/lockgate.db` next to this
        /// file. Created by the first change or counted call.
        pub file: Option<PathBuf> = Option<Text>,
        /// Secrets of at least 32 characters, 8 at most: the first encrypts the credentials of
        /// integrations, all decrypt them. Without one no credential can be stored. References:
        /// `${STORE_KEY}` or `file:PATH`.
        pub keys: Vec<String> = Vec<Text>,
        /// `false`: a gateway that starts while the store is unavailable is ready without the
        /// stored data.
        pub required: bool = Toggle<true>,
    }

    pub struct Redis as "Redis" {
        /// Redis or Valkey, for gateways that share the rates of their policies:
        /// `redis://USER:PASSWORD@HOST:PORT/DATABASE`, with TLS `rediss://`. Requires `secret`, the
        /// same on every gateway. A reference: `${REDIS_URL}` or `file:PATH`. Without it each
        /// gateway counts separately.
        pub url: Option<String> = Option<Text>,
        /// Prefix of keys, for several groups of gateways in one database: 1 to 64 letters, digits
        /// and `-_.:`. Default `lockgate`.
        pub prefix: Option<String> = Option<Text>,
    }

    pub struct Replicas as "Replicas" {
        /// Address at which the other gateways with this `secret` reach this one, with a port if it
        /// differs from that of `listen`, such as `${POD_IP}`. Answers to questions and the ends of
        /// sessions are then sent to the gateway that holds the call. Requires `replicas.peers` and
        /// `secret`.
        pub address: Option<String> = Option<Text>,
        /// Names or addresses that resolve to all gateways, including this one, each with a port if
        /// it differs from that of `listen`; at most 64. A name is resolved for each message, and
        /// nothing is sent to any other address.
        pub peers: Vec<String> = List,
        /// The name in the certificate of all gateways; required with `http.tls`. `http.hosts` must
        /// accept it.
        pub tls_name: Option<String> = Option<Text>,
    }
}

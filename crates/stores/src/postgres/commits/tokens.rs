//! Tokens in their table.

use async_trait::async_trait;
use everturn_core::ids::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::idempotency::IdempotencyRecord;
use crate::postgres::Inner;
use crate::postgres::Postgres;
use crate::postgres::by_itself;
use crate::postgres::connection::columns::{name, unreadable};
use crate::postgres::connection::pool::{Param, TxMode};
use crate::postgres::connection::retry::DbFault;
use crate::postgres::lasting;
use crate::store::StoreError;
use crate::tokens::{Scopes, Token, TokenHash, TokenKind, Tokens};

const COLUMNS: &str = "hash, name, owner, scopes, made, expires, revoked, kind, parent";

#[async_trait]
impl Tokens for Postgres {
    async fn put(&self, token: &Token) -> Result<(), StoreError> {
        let sql = format!(
            "INSERT INTO tokens ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING"
        );
        let row = TokenRow::of(token);
        self.inner.write_again(&sql, &row.params()).await
    }

    async fn find(&self, hash: &TokenHash) -> Result<Option<Token>, StoreError> {
        let (inner, hash) = (self.inner.clone(), *hash);
        let sql = format!("SELECT {COLUMNS} FROM tokens WHERE hash = $1");
        let rows = by_itself(async move { inner.reads.look(&sql, &[(&&hash.0[..], Type::BYTEA)]).await }).await?;
        rows.first().map(token_of).transpose().map_err(lasting)
    }

    async fn list(&self) -> Result<Vec<Token>, StoreError> {
        let rows = self.inner.reads.look(&format!("SELECT {COLUMNS} FROM tokens ORDER BY made, hash"), &[]).await?;
        rows.iter().map(token_of).collect::<Result<_, _>>().map_err(lasting)
    }

    async fn revoke(&self, hash: &TokenHash, at: Timestamp) -> Result<(), StoreError> {
        let sql = "UPDATE tokens SET revoked = $2 WHERE hash = $1 AND revoked IS NULL";
        self.inner.write_again(sql, &[(&&hash.0[..], Type::BYTEA), (&at.0, Type::INT8)]).await
    }

    async fn exchange(&self, code: &TokenHash, session: &Token) -> Result<bool, StoreError> {
        let sql = format!(
            "WITH used AS (UPDATE tokens SET revoked = $5 \
             WHERE hash = $10 AND kind = 'code' AND revoked IS NULL AND expires > $5 RETURNING hash) \
             INSERT INTO tokens ({COLUMNS}) SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9 FROM used ON CONFLICT DO NOTHING"
        );
        let row = TokenRow::of(session);
        let code = &code.0[..];
        let params: Vec<Param<'_>> = row.params().into_iter().chain([(&code as _, Type::BYTEA)]).collect();
        self.inner.write_again(&sql, &params).await?;
        Ok(self.find(&session.hash).await?.is_some()) // A repeat finds the code used, by the first time.
    }

    async fn forget(&self, before: Timestamp) -> Result<(), StoreError> {
        let sql = "DELETE FROM tokens WHERE kind <> 'token' AND (revoked < $1 OR expires < $1)";
        self.inner.write_again(sql, &[(&before.0, Type::INT8)]).await
    }

    async fn remember(&self, asked: &IdempotencyRecord) -> Result<IdempotencyRecord, StoreError> {
        let IdempotencyRecord { owner, key, request, salt, at } = asked;
        self.inner.write_again("DELETE FROM asked WHERE at < $1", &[(&asked.oldest().0, Type::INT8)]).await?;
        let sql =
            "INSERT INTO asked (owner, key, request, salt, at) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
        let params: [Param<'_>; 5] = [
            (&owner.as_bytes(), Type::BYTEA),
            (&key.as_bytes(), Type::BYTEA),
            (&&request[..], Type::BYTEA),
            (&&salt[..], Type::BYTEA),
            (&at.0, Type::INT8),
        ];
        self.inner.write_again(sql, &params).await?;
        Ok(self.recall(owner, key).await?.unwrap_or_else(|| asked.clone()))
    }

    async fn recall(&self, owner: &str, key: &str) -> Result<Option<IdempotencyRecord>, StoreError> {
        let sql = "SELECT request, salt, at FROM asked WHERE owner = $1 AND key = $2";
        let params: [Param<'_>; 2] = [(&owner.as_bytes(), Type::BYTEA), (&key.as_bytes(), Type::BYTEA)];
        let rows = self.inner.reads.look(sql, &params).await?;
        let bytes = |row: &Row, name: &str| {
            row.get::<_, &[u8]>(name).try_into().map_err(|_| unreadable("a request is of another length"))
        };
        let asked = |row: &Row| {
            let (request, salt, at) = (bytes(row, "request")?, bytes(row, "salt")?, Timestamp(row.get("at")));
            Ok(IdempotencyRecord { owner: owner.into(), key: key.into(), request, salt, at })
        };
        rows.first().map(asked).transpose().map_err(lasting)
    }
}

impl Inner {
    /// One statement that writes, and may be done twice.
    async fn write_again(&self, sql: &str, params: &[Param<'_>]) -> Result<(), StoreError> {
        self.reads.retry().run(|| self.reads.query_once(TxMode::Write, sql, params)).await.map(drop)
    }
}

/// A token as the values of its columns.
struct TokenRow<'a> {
    hash: &'a [u8],
    name: &'a [u8],
    owner: &'a [u8],
    scopes: String,
    made: i64,
    expires: Option<i64>,
    revoked: Option<i64>,
    kind: &'static str,
    parent: Option<&'a [u8]>,
}

impl<'a> TokenRow<'a> {
    fn of(token: &'a Token) -> Self {
        Self {
            hash: &token.hash.0,
            name: token.name.as_bytes(),
            owner: token.owner.as_bytes(),
            scopes: token.scopes.names(),
            made: token.made.0,
            expires: token.expires.map(|at| at.0),
            revoked: token.revoked.map(|at| at.0),
            kind: token.kind.name(),
            parent: token.kind.parent().map(|parent| &parent.0[..]),
        }
    }

    /// In the order of [`COLUMNS`].
    fn params(&self) -> [Param<'_>; 9] {
        [
            (&self.hash, Type::BYTEA),
            (&self.name, Type::BYTEA),
            (&self.owner, Type::BYTEA),
            (&self.scopes, Type::TEXT),
            (&self.made, Type::INT8),
            (&self.expires, Type::INT8),
            (&self.revoked, Type::INT8),
            (&self.kind, Type::TEXT),
            (&self.parent, Type::BYTEA),
        ]
    }
}

fn token_of(row: &Row) -> Result<Token, DbFault> {
    let parent = row.get::<_, Option<&[u8]>>("parent").map(TryInto::try_into).transpose();
    let parent = parent.map_err(|_| unreadable("a token has a parent of another length"))?.map(TokenHash);
    let kind = TokenKind::named(row.get("kind"), parent).ok_or_else(|| unreadable("a token has an unknown kind"))?;
    let hash =
        row.get::<_, &[u8]>("hash").try_into().map_err(|_| unreadable("a token has a hash of another length"))?;
    Ok(Token {
        hash: TokenHash(hash),
        name: name(row.get("name"))?,
        owner: name(row.get("owner"))?,
        scopes: Scopes::from_names(row.get("scopes")),
        made: Timestamp(row.get("made")),
        expires: row.get::<_, Option<i64>>("expires").map(Timestamp),
        revoked: row.get::<_, Option<i64>>("revoked").map(Timestamp),
        kind,
    })
}

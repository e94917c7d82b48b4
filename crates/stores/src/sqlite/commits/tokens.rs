//! Tokens in their table.

use async_trait::async_trait;
use everturn_core::ids::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::idempotency::IdempotencyRecord;
use crate::sqlite::Sqlite;
use crate::sqlite::columns::name;
use crate::sqlite::writer::thread::DurabilityNeed;
use crate::store::StoreError;
use crate::tokens::{Scopes, Token, TokenHash, TokenKind, Tokens};

const COLUMNS: &str = "hash, name, owner, scopes, made, expires, revoked, kind, parent";

#[async_trait]
impl Tokens for Sqlite {
    async fn put(&self, token: &Token) -> Result<(), StoreError> {
        let token = token.clone();
        self.write(DurabilityNeed::Full, move |tx| Ok(put(tx.connection, &token)?)).await
    }

    async fn find(&self, hash: &TokenHash) -> Result<Option<Token>, StoreError> {
        let hash = *hash;
        self.read(move |snapshot| {
            let mut select = snapshot.prepare_cached(&format!("SELECT {COLUMNS} FROM tokens WHERE hash = ?1"))?;
            Ok(select.query_row(params![hash.0], token_of).optional()?)
        })
        .await
    }

    async fn list(&self) -> Result<Vec<Token>, StoreError> {
        self.read(|snapshot| {
            let mut select = snapshot.prepare_cached(&format!("SELECT {COLUMNS} FROM tokens ORDER BY made, hash"))?;
            let found = select.query_map([], token_of)?;
            Ok(found.collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn revoke(&self, hash: &TokenHash, at: Timestamp) -> Result<(), StoreError> {
        let hash = *hash;
        self.write(DurabilityNeed::Full, move |tx| Ok(revoke(tx.connection, &hash, at)?)).await
    }

    async fn exchange(&self, code: &TokenHash, session: &Token) -> Result<bool, StoreError> {
        let (code, session) = (*code, session.clone());
        self.write(DurabilityNeed::Full, move |tx| Ok(exchange(tx.connection, &code, &session)?)).await
    }

    async fn forget(&self, before: Timestamp) -> Result<(), StoreError> {
        self.write(DurabilityNeed::Full, move |tx| {
            let sql = "DELETE FROM tokens WHERE kind <> 'token' AND (revoked < ?1 OR expires < ?1)";
            tx.connection.prepare_cached(sql)?.execute(params![before.0])?;
            Ok(())
        })
        .await
    }

    async fn remember(&self, asked: &IdempotencyRecord) -> Result<IdempotencyRecord, StoreError> {
        let asked = asked.clone();
        self.write(DurabilityNeed::Full, move |tx| Ok(remember(tx.connection, &asked)?)).await
    }

    async fn recall(&self, owner: &str, key: &str) -> Result<Option<IdempotencyRecord>, StoreError> {
        let (owner, key) = (owner.to_owned(), key.to_owned());
        self.read(move |snapshot| Ok(recall(snapshot, &owner, &key)?)).await
    }
}

fn put(connection: &Connection, token: &Token) -> Result<(), rusqlite::Error> {
    let Token { hash, name, owner, scopes, made, expires, revoked, kind } = token;
    let mut insert = connection.prepare_cached(&format!(
        "INSERT OR IGNORE INTO tokens ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
    ))?;
    let (expires, revoked) = (expires.map(|at| at.0), revoked.map(|at| at.0));
    let (kind, parent) = (kind.name(), kind.parent().map(|parent| parent.0));
    let (name, owner) = (name.as_bytes(), owner.as_bytes());
    insert.execute(params![hash.0, name, owner, scopes.names(), made.0, expires, revoked, kind, parent])?;
    Ok(())
}

fn exchange(connection: &Connection, code: &TokenHash, session: &Token) -> Result<bool, rusqlite::Error> {
    let sql = "UPDATE tokens SET revoked = ?2 WHERE hash = ?1 AND kind = 'code' AND revoked IS NULL AND expires > ?2";
    let is_used = connection.prepare_cached(sql)?.execute(params![code.0, session.made.0])? == 1;
    if is_used {
        put(connection, session)?;
    }
    Ok(is_used)
}

fn revoke(connection: &Connection, hash: &TokenHash, at: Timestamp) -> Result<(), rusqlite::Error> {
    let mut update = connection.prepare_cached("UPDATE tokens SET revoked = ?2 WHERE hash = ?1 AND revoked IS NULL")?;
    update.execute(params![hash.0, at.0])?;
    Ok(())
}

fn remember(connection: &Connection, asked: &IdempotencyRecord) -> Result<IdempotencyRecord, rusqlite::Error> {
    connection.prepare_cached("DELETE FROM asked WHERE at < ?1")?.execute(params![asked.oldest().0])?;
    let IdempotencyRecord { owner, key, request, salt, at } = asked;
    let sql = "INSERT OR IGNORE INTO asked (owner, key, request, salt, at) VALUES (?1, ?2, ?3, ?4, ?5)";
    connection.prepare_cached(sql)?.execute(params![owner.as_bytes(), key.as_bytes(), request, salt, at.0])?;
    Ok(recall(connection, owner, key)?.unwrap_or_else(|| asked.clone()))
}

fn recall(connection: &Connection, owner: &str, key: &str) -> Result<Option<IdempotencyRecord>, rusqlite::Error> {
    let mut select = connection.prepare_cached("SELECT request, salt, at FROM asked WHERE owner = ?1 AND key = ?2")?;
    let asked = |row: &Row<'_>| {
        let (request, salt, at) = (row.get(0)?, row.get(1)?, Timestamp(row.get(2)?));
        Ok(IdempotencyRecord { owner: owner.into(), key: key.into(), request, salt, at })
    };
    select.query_row(params![owner.as_bytes(), key.as_bytes()], asked).optional()
}

fn token_of(row: &Row<'_>) -> Result<Token, rusqlite::Error> {
    Ok(Token {
        hash: TokenHash(row.get(0)?),
        name: name(row, 1)?,
        owner: name(row, 2)?,
        scopes: Scopes::from_names(&row.get::<_, String>(3)?),
        made: Timestamp(row.get(4)?),
        expires: row.get::<_, Option<i64>>(5)?.map(Timestamp),
        revoked: row.get::<_, Option<i64>>(6)?.map(Timestamp),
        kind: kind_of(row)?,
    })
}

fn kind_of(row: &Row<'_>) -> Result<TokenKind, rusqlite::Error> {
    let (name, parent) = (row.get::<_, String>(7)?, row.get::<_, Option<[u8; 32]>>(8)?.map(TokenHash));
    TokenKind::named(&name, parent).ok_or_else(|| {
        rusqlite::Error::FromSqlConversionFailure(
            7,
            rusqlite::types::Type::Text,
            format!("kind of token: {name}").into(),
        )
    })
}

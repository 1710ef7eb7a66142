"""The state: transactions, schema and migrations, history, exports, secrets at rest. No rule of the cloud is here."""

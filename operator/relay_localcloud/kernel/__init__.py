"""The state: transactions, schema and migrations, history, exports, secrets at rest. It holds no rules of the cloud."""

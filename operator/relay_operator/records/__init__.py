"""What happens to a batch's records inside the operator: pure streaming, no network.

In: `lines` cuts bytes, `check` judges one record, `ids` finds duplicates, `intake` puts the three in order and `split`
cuts what passed into parts to upload. Out: `results` reads result files, `merge` makes one line per `custom_id` of all
rounds, in `step` with the records where it can. Work is done in slices on the event loop, which `pace` keeps short.
"""

{{ config(materialized='incremental', incremental_strategy='merge', unique_key='id') }}
{% if is_incremental() %}
select id, 'paid' as state, id div 50000 as day from range(940000, 960000)
{% else %}
select id, 'new' as state, id div 50000 as day from range(0, 1000000, 1, 20)
{% endif %}

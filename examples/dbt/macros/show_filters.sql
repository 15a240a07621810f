{% macro show_filters() %}
  {% set scans = run_query("
    select table_name, files_total, files_pruned, rows_output from dynamic_filter_scans()
    where format = 'delta' order by query_id") %}
  {% if execute %}
    {% for s in scans %}
      {{ log(s[0] ~ ": " ~ s[2] ~ " of " ~ s[1] ~ " files skipped, " ~ s[3] ~ " rows read", info=true) }}
    {% endfor %}
  {% endif %}
{% endmacro %}

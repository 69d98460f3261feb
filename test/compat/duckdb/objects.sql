CREATE VIEW objects AS
  SELECT * FROM (
    SELECT *, row_number() OVER (PARTITION BY cluster, uid ORDER BY version DESC) AS place FROM 'changes.parquet')
  WHERE place = 1 AND op <> 'd';

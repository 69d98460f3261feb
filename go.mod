module kubecdc

go 1.26.8
